"""The error of what is done with dead letters."""


class DeadLettersError(Exception):
    """Dead letters cannot be read or replayed as was asked; the message ends with what to do."""
