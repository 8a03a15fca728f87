"""Variational inference: families, and the solvers that fit them."""
