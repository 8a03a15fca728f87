"""Path 2: many fits to simulated datasets, and whether their posteriors are calibrated."""
