"""Pyro: guides after SVI."""
