"""What came out of the demo, and whether it is right."""

from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

from acker_cli.views.live import TopologySnapshot, by_reason, latency_in_words

_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class Comparison:
    """The topology's count beside the expected plain count of the same text."""

    expected: Counter[str]
    counted: Counter[str]

    @property
    def matches(self) -> bool:
        """Whether every word was counted as often as it stands in the text, and no other."""
        return self.expected == self.counted

    def differences(self) -> list[tuple[str, int, int]]:
        """The words that differ: word, expected, counted; the greatest difference first."""
        differing = [
            (word, self.expected[word], self.counted[word])
            for word in self.expected.keys() | self.counted.keys()
            if self.expected[word] != self.counted[word]
        ]
        return sorted(differing, key=lambda row: (-abs(row[1] - row[2]), row[0]))

    def in_words(self) -> str:
        if self.matches:
            return (
                f"counts match: {self.counted.total():,} words, {len(self.counted):,} distinct, "
                "each as often as in a plain count of the text"
            )
        rows = self.differences()
        shown = ", ".join(f"{word!r} {counted:,} instead of {expected:,}" for word, expected, counted in rows[:_SHOWN])
        more = f" and {len(rows) - _SHOWN:,} more" if len(rows) > _SHOWN else ""
        return (
            f"counts differ: {self.counted.total():,} of {self.expected.total():,} words, "
            f"{len(self.counted):,} of {len(self.expected):,} distinct: {shown}{more}"
        )


@dataclass(frozen=True, slots=True)
class DemoReport:
    """One run of the demo."""

    last: TopologySnapshot  # when it was over
    lines: int  # of the text
    lines_acked: int
    seconds: float  # from the first line emitted to the last one acked
    comparison: Comparison
    acker_kills: int  # acker workers killed
    bolt_kills: int  # bolt processes killed
    overdue: str = ""  # what was pending when it was given up; empty if it was not

    @property
    def is_right(self) -> bool:
        return self.lines_acked == self.lines and self.comparison.matches

    @property
    def pending(self) -> int:
        """Trees that are still open: lines without an outcome, or what a ledger still holds."""
        ackers = self.last.ackers
        return max(self.lines - self.lines_acked, ackers.pending if ackers is not None else 0)

    @property
    def tuples_per_second(self) -> float:
        """Tuple deliveries executed, over the whole run."""
        return self.last.executed / self.seconds if self.seconds > 0 else 0.0

    def to_json(self) -> dict[str, Any]:
        """The report for programs.

        `orphans` counts the records of the ledgers that acks began and no init ever joined: of trees that had failed.
        """
        last, ackers = self.last, self.last.ackers
        trees = last.at_spouts
        return {
            "emitted": trees.emitted,
            "acked": trees.acked,
            "failed": sum(trees.failed.values()),
            "failed_by_reason": trees.failed,
            "replayed": last.replayed,
            "pending": self.pending,
            "orphans": 0 if ackers is None else ackers.orphans + ackers.orphans_expired,
            "duplicate_inits": 0 if ackers is None else ackers.duplicate_inits,
            "lines": self.lines,
            "lines_acked": self.lines_acked,
            "words": self.comparison.counted.total(),
            "distinct_words": len(self.comparison.counted),
            "counts_match": self.comparison.matches,
            "seconds": round(self.seconds, 2),
            "tuples_per_second": round(self.tuples_per_second),
            "complete_latency_ms": {
                f"p{percent}": round(trees.complete_latency.quantile(percent / 100) * 1e3, 1) for percent in (50, 99)
            },
            "acker_kills": self.acker_kills,
            "bolt_kills": self.bolt_kills,
        }

    def in_words(self) -> list[str]:
        last, trees = self.last, self.last.at_spouts
        speed = f"{last.executed:,} tuples, {self.tuples_per_second:,.0f} a second"
        failed, replayed = by_reason(trees.failed), f"{last.replayed:,}"
        lines = [
            f"{self.lines_acked:,} of {self.lines:,} lines acked in {self.seconds:.1f} s: {speed}",
            f"emitted {trees.emitted:,}, failed {failed}, replayed {replayed}, pending {self.pending:,}",
            latency_in_words(trees.complete_latency),
        ]
        if self.acker_kills or self.bolt_kills:
            lines.append(f"killed on the way: {self.acker_kills} acker worker, {self.bolt_kills} bolt process")
        if self.overdue:
            lines.append(self.overdue)
        return [*lines, self.comparison.in_words()]
