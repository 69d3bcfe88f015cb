"""The status of a message."""
