"""Solvers, which find the best member of a family."""
