"""The error of what is done with spans."""


class SpansError(Exception):
    """Trees cannot be made into spans, or these cannot be sent; the message ends with what to do."""
