"""The search for modes: where to start, climbs of the density, and what is done with their ends."""
