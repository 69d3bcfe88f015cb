"""The number of records that a bolt process reads at once."""

from typing import Final

_MOST_RECORDS: Final = 10_000  # in one read
_READ_SECONDS: Final = 0.5  # a read that takes longer than this to execute is made smaller


class ReadSize:
    """Chooses the size of reads: begins with one record, and adapts to the tuples of a record and their duration.

    Args:
        tuples: about how many tuples to read at once.

    Attributes:
        records: the largest number of records of the next read.
    """

    def __init__(self, tuples: int) -> None:
        self.records = 1
        self._wanted = tuples
        self._records = self._tuples = 0  # since all records were last executed
        self._read_at = 0.0

    def read(self, records: int, now: float) -> None:
        if not self._records:
            self._read_at = now
        self._records += records

    def executed(self, tuples: int) -> None:
        """Notes that tuples of these records were read, and executed or begun."""
        self._tuples += tuples

    def fit(self, now: float, least_tuples: int) -> None:
        """Adapts the size when all records are executed; a read has about `least_tuples` if there are enough."""
        if not self._records:
            return
        fitting = self._wanted * self._records // (self._tuples or 1)
        if (seconds := now - self._read_at) > _READ_SECONDS:
            fitting = min(fitting, int(self._records * _READ_SECONDS / seconds))
        fitting = max(fitting, least_tuples * self._records // (self._tuples or 1))
        self.records = max(1, min(_MOST_RECORDS, 2 * self.records, fitting))
        self._records = self._tuples = 0
