"""How many records a bolt process reads at once: about as many as are executed soon."""

from typing import Final

_MOST_RECORDS: Final = 10_000  # of a read
_READ_SECONDS: Final = 0.5  # a read that takes longer than this to execute is made smaller


class ReadSize:
    """Grows from one record on, and fits records to the tuples that they have and the time that these take.

    Args:
        tuples: that are read at once, about.

    Attributes:
        records: of the next read, at most.
    """

    def __init__(self, tuples: int) -> None:
        self.records = 1
        self._wanted = tuples
        self._records = self._tuples = 0  # since the last time that all was executed
        self._read_at = 0.0

    def read(self, records: int, now: float) -> None:
        if not self._records:
            self._read_at = now
        self._records += records

    def executed(self, tuples: int) -> None:
        """Tuples of these records were read, and executed or begun."""
        self._tuples += tuples

    def fit(self, now: float, least_tuples: int) -> None:
        """All that was read is executed; a read has `least_tuples`, about, if that many are there."""
        if not self._records:
            return
        fitting = self._wanted * self._records // (self._tuples or 1)
        if (seconds := now - self._read_at) > _READ_SECONDS:
            fitting = min(fitting, int(self._records * _READ_SECONDS / seconds))
        fitting = max(fitting, least_tuples * self._records // (self._tuples or 1))
        self.records = max(1, min(_MOST_RECORDS, 2 * self.records, fitting))
        self._records = self._tuples = 0
