"""Deliveries that acks of tuples wait for: records that a bolt writes for tuples, and dead letters."""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from kafka_clients.producer import DeliveredAt
from spout_sdk.api.tuples import InputPack, Tuple

Report = tuple[Tuple, str, Any, Any]  # tuple, topic, the error or None, and the message or None, as reported


class PendingWrites:
    """Counts the undelivered records of each tuple: it is acked when all are delivered, and fails when one is not.

    Delivery reports arrive at any time, while another record is sent, too. They are queued, and `handle` is called
    between two calls of the bolt, so a tuple is never acked between two writes of one `execute`.

    Args:
        ack: acks a tuple when all of its records are delivered.
        fail: called with each report of a record that was not delivered, and whether its tuple is still pending.
        ack_group: acks the tuples of a group whose records are delivered, by their indices.
    """

    def __init__(
        self,
        ack: Callable[[Tuple], None],
        fail: Callable[[Report, bool], None],
        ack_group: "Callable[[WriteGroup, Sequence[int]], None]",
    ) -> None:
        self._ack = ack
        self._ack_group = ack_group
        self._fail = fail
        self.undelivered: dict[Tuple, int] = {}  # records of each tuple, including records whose report is queued
        self.acked: set[Tuple] = set()  # tuples that the bolt has acked itself meanwhile
        self._reports: deque[Report] = deque()
        self._groups: deque[WriteGroup] = deque()  # groups with records that were delivered since `handle`
        self._failed: deque[Report] = deque()  # reports of records of groups that were not delivered

    def expect(self, tuple_: Tuple) -> None:
        """Counts a record, before it is sent."""
        self.undelivered[tuple_] = self.undelivered.get(tuple_, 0) + 1

    def withdraw(self, tuple_: Tuple) -> None:
        """Withdraws the count of a record that was not sent, because the call raised."""
        self.undelivered[tuple_] -= 1
        if not self.undelivered[tuple_]:
            del self.undelivered[tuple_]

    def report(self, tuple_: Tuple, topic: str, error: Any = None, message: Any = None) -> None:
        """Queues the delivery report of a record for `handle`."""
        self._reports.append((tuple_, topic, error, message))

    def forget(self, tuple_: Tuple) -> None:
        """Forgets a tuple that has failed: later delivery reports of its records have no effect."""
        self.undelivered.pop(tuple_, None)
        self.acked.discard(tuple_)

    def reporter(self, group: "WriteGroup") -> DeliveredAt:
        """Returns the callback for the delivery reports of the records of a group."""
        groups, failed, delivered, indices = self._groups, self._failed, group.delivered, group.indices

        def report(at: int, error: Any, message: Any) -> None:
            if error is not None:
                failed.append((group.tuple_at(indices[at]), group.topic, error, message))
                return
            if not delivered:
                groups.append(group)
            delivered.append(indices[at])

        return report

    def handle(self) -> None:
        """Acks and fails tuples by the reports that have arrived."""
        while self._groups:
            group = self._groups.popleft()
            indices = sorted(group.delivered)
            group.delivered.clear()
            self._ack_group(group, indices)
        while self._failed:
            self._fail(self._failed.popleft(), True)
        while self._reports:
            report = self._reports.popleft()
            tuple_, _, error, _ = report
            left = self.undelivered.get(tuple_)
            if error is not None:
                self.forget(tuple_)
                self._fail(report, left is not None)
            elif left is not None and left > 1:
                self.undelivered[tuple_] = left - 1
            elif left is not None:
                self.forget(tuple_)
                self._ack(tuple_)


class WriteGroup:
    """Tuples of one pack, with one record each that is written to one topic.

    It has the indices of the tuples, and the tuples themselves only for hooks.

    Attributes:
        pack: the pack of the tuples.
        indices: the index of each tuple in the pack.
        topic: the topic of the records.
        delivered: the indices of tuples whose records are delivered, and that are not acked.
    """

    __slots__ = ("_tuples", "delivered", "indices", "pack", "topic")

    def __init__(self, pack: InputPack, indices: Sequence[int], topic: str, tuples: Sequence[Tuple] = ()) -> None:
        self.pack, self.indices, self.topic = pack, indices, topic
        self._tuples = {each.index: each for each in tuples}
        self.delivered: list[int] = []

    def still_open(self, indices: Iterable[int]) -> list[int]:
        """The indices among these of the tuples that are not settled."""
        settled = self.pack.settled
        return [index for index in indices if not settled[index]]

    def tuple_at(self, index: int) -> Tuple:
        """A tuple; without values, unless there are hooks."""
        return self._tuples.get(index) or self.pack.tuple_at(index, ())
