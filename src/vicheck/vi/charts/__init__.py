"""Charts: how solvers move about in families, for many fits at a time, in NumPy."""
