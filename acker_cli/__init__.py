"""The one command, `acker`."""
