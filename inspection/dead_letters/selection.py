"""Which dead letters are meant."""

from dataclasses import dataclass, field

from inspection.dead_letters.letter import DeadLetter


@dataclass(frozen=True, slots=True)
class Selection:
    """Filters, all of which must hold; an empty one takes everything.

    Attributes:
        reasons: any of these.
        topics: any of these that it lay in.
        components: any of these that could not use it.
        since_ms: not before, in milliseconds since the epoch.
        offsets: any of these offsets of dead letters.
    """

    reasons: frozenset[str] = field(default=frozenset())
    topics: frozenset[str] = field(default=frozenset())
    components: frozenset[str] = field(default=frozenset())
    since_ms: int | None = None
    offsets: frozenset[int] = field(default=frozenset())

    def __bool__(self) -> bool:
        """Whether it leaves anything out."""
        return self != Selection()

    def takes(self, letter: DeadLetter) -> bool:
        """Whether a dead letter is meant."""
        return (
            (not self.reasons or letter.reason in self.reasons)
            and (not self.topics or letter.topic in self.topics)
            and (not self.components or letter.component in self.components)
            and (self.since_ms is None or letter.timestamp_ms >= self.since_ms)
            and (not self.offsets or letter.offset in self.offsets)
        )
