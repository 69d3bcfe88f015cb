"""The oldest open trees of a partition of the ack log, by the acker's own rules."""

from dataclasses import dataclass

from acker_worker.fold import PartitionFold


@dataclass(frozen=True, slots=True)
class OpenRoot:
    """A tree that is open."""

    root: int
    born_ms: int  # when the ledger first heard of it, to within a tick, in milliseconds since the epoch


def oldest_open(fold: PartitionFold, count: int, tick_ms: int) -> list[OpenRoot]:
    """The oldest open trees of a fold, the oldest first."""
    return [OpenRoot(root, tick * tick_ms) for root, tick in fold.ledger.oldest(count)]
