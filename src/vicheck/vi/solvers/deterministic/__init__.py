"""Deterministic solver: the ELBO on fixed draws, optimised until its gradient vanishes."""
