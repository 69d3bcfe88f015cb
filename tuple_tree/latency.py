"""A histogram of latencies in log-scaled buckets: 8 to a power of two, so within 12.5 % of the true value."""

from collections import Counter
from collections.abc import Mapping
from typing import Final, Self

_SUB_BITS: Final = 3
_SUB: Final = 1 << _SUB_BITS


class LatencyHistogram:
    """Counts of durations, from a microsecond up; what is shorter counts as one.

    Two histograms add up to the histogram of all their durations. One is made of the `counts` of another, too.
    """

    __slots__ = ("_counts",)

    def __init__(self, counts: Mapping[int, int] | None = None) -> None:
        self._counts = dict(counts or {})

    def record(self, seconds: float, times: int = 1) -> None:
        """Adds a duration, once or several times."""
        bucket = micros = int(seconds * 1e6) if seconds > 0 else 0
        if micros >= _SUB:
            shift = micros.bit_length() - 1 - _SUB_BITS
            bucket = (shift << _SUB_BITS) + (micros >> shift)
        counts = self._counts
        counts[bucket] = counts.get(bucket, 0) + times

    def merge(self, other: "LatencyHistogram") -> None:
        """Adds all durations of another."""
        for bucket, count in other._counts.items():
            self._counts[bucket] = self._counts.get(bucket, 0) + count

    def merged(self, other: "LatencyHistogram") -> Self:
        """A new histogram of all durations of both."""
        merged = self.copy()
        merged.merge(other)
        return merged

    def since(self, earlier: "LatencyHistogram") -> Self:
        """The durations that were added after an earlier state of this histogram."""
        return type(self)(Counter(self._counts) - Counter(earlier._counts))

    def copy(self) -> Self:
        """An independent copy."""
        return type(self)(self._counts)

    @property
    def counts(self) -> Mapping[int, int]:
        """Bucket → count, for JSON."""
        return self._counts

    @property
    def total(self) -> int:
        """How many durations there are."""
        return sum(self._counts.values())

    def quantile(self, q: float) -> float:
        """The duration in seconds below which a share `q` of all lies: the middle of its bucket; 0.0 if empty.

        Raises `ValueError` if `q` is not between 0 and 1.
        """
        if not 0 <= q <= 1:
            raise ValueError(f"a quantile is between 0 and 1, not {q}")
        rank = q * self.total
        seen = 0
        middle = 0.0
        for bucket in sorted(self._counts):
            middle = _middle(bucket)
            seen += self._counts[bucket]
            if seen >= rank:
                break
        return middle

    def shorter_than(self, power: int) -> int:
        """How many durations are shorter than `2 ** power` microseconds (3 or more): exact, as buckets end there."""
        end = (power - _SUB_BITS + 1) << _SUB_BITS
        return sum(count for bucket, count in self._counts.items() if bucket < end)

    @property
    def seconds(self) -> float:
        """The sum of all durations, each taken for the middle of its bucket, so within 6.25 %."""
        return sum(_middle(bucket) * count for bucket, count in self._counts.items())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LatencyHistogram) and self._counts == other._counts

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<LatencyHistogram of {self.total}, p50 {self.quantile(0.5) * 1e3:.1f} ms>"


def _middle(bucket: int) -> float:
    if bucket < _SUB:
        return (bucket + 0.5) / 1e6
    shift = (bucket >> _SUB_BITS) - 1
    low = (bucket - (shift << _SUB_BITS)) << shift
    return (low + (1 << shift) / 2) / 1e6
