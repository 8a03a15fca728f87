"""What vicheck runs on, and whether it works there."""
