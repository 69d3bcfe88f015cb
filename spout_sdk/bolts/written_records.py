"""Records that a bolt writes for its inputs, and their delivery reports."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from spout_sdk.api.tuples import InputPack, Tuple


class Undelivered(NamedTuple):
    """A record that was not delivered, with the error and the message as reported."""

    tuple: Tuple
    topic: str
    error: Any
    message: Any


@dataclass(slots=True, eq=False)
class Written:
    """Records for tuples of one pack, one for each, that are written to one topic.

    Attributes:
        indices: the index of each tuple in the pack.
        tuples: the tuples that are known, by index; others have no values in hooks.
        ended: indices of tuples with a delivery report since the last `take`.
    """

    reports: "DeliveryReports"
    pack: InputPack
    indices: Sequence[int]
    topic: str
    tuples: Mapping[int, Tuple]
    ended: list[int] = field(default_factory=list)

    def report(self, at: int, error: Any, message: Any) -> None:
        """Takes the delivery report of a record, by its place in `indices`."""
        index = self.indices[at]
        if error is not None:
            tuple_ = self.tuples.get(index) or self.pack.tuple_at(index, ())
            self.reports.undelivered.append(Undelivered(tuple_, self.topic, error, message))
        if not self.ended:
            self.reports.ended.append(self)
        self.ended.append(index)


class DeliveryReports:
    """Delivery reports, which arrive at any time, even while another record is sent: they are queued for a flush.

    Attributes:
        ended: records with reports.
        undelivered: records that were not delivered, which are in `ended` as well.
    """

    def __init__(self) -> None:
        self.ended: deque[Written] = deque()
        self.undelivered: deque[Undelivered] = deque()

    def take(self, fail: Callable[[Undelivered], None]) -> list[tuple[InputPack, list[int]]]:
        """The tuples with reports, after `fail` was called for each record that was not delivered."""
        while self.undelivered:
            fail(self.undelivered.popleft())
        taken = []
        while self.ended:
            written = self.ended.popleft()
            taken.append((written.pack, sorted(written.ended)))
            written.ended = []
        return taken
