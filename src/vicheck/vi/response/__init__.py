"""Linear response: how much a fit would move if the posterior were tilted a little."""
