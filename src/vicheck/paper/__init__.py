"""The paper: its models, each a NumPyro function."""
