"""Statistics on arrays: NumPy and SciPy only, never JAX."""
