"""Settings: what can be set, how it is spelled, and where it was set."""
