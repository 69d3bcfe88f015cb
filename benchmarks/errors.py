"""What ends a benchmark; every message says what to do, or what to look at."""


class BenchmarkError(Exception):
    """A run that measures nothing: base of all errors here."""


class NotSetUpError(BenchmarkError):
    """A peer is not there, or could not be fetched."""
