"""NumPyro: models, and guides after SVI."""
