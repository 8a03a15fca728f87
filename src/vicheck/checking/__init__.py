"""Path 1: a fit, or draws from anywhere, and whether they can be trusted."""
