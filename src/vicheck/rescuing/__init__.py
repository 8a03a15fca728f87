"""Path 3: from a fit that failed to an answer that can be trusted, or to a plain no."""
