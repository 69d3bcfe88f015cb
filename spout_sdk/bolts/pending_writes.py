"""Deliveries that acks of tuples wait for: records that a bolt writes for tuples, and dead letters."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from spout_sdk.api.tuples import InputPack, Tuple

Report = tuple[Tuple, str, Any, Any]  # tuple, topic, the error or None, and the message or None, as reported


class PendingWrites:
    """Counts the undelivered records of each tuple: it is acked when all are delivered, and fails when one is not.

    Delivery reports arrive at any time, while another record is sent, too. They are queued, and `handle` is called
    between two calls of the bolt, so a tuple is never acked between two writes of one `execute`.

    Args:
        ack: acks a tuple when all of its records are delivered.
        fail: called with each report of a record that was not delivered, and whether its tuple is still pending.
        ack_group: acks the tuples of a group when all of its records are delivered.
    """

    def __init__(
        self,
        ack: Callable[[Tuple], None],
        fail: Callable[[Report, bool], None],
        ack_group: "Callable[[WriteGroup], None]",
    ) -> None:
        self._ack = ack
        self._ack_group = ack_group
        self._fail = fail
        self.undelivered: dict[Tuple, int] = {}  # records of each tuple, including records whose report is queued
        self.acked: set[Tuple] = set()  # tuples that the bolt has acked itself meanwhile
        self._reports: deque[Report] = deque()
        self._groups: deque[WriteGroup] = deque()  # groups whose records are all reported

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

    def reporter(self, group: "WriteGroup") -> Callable[[Any, Any], None]:
        """Returns the callback for the delivery report of each record of a group.

        The records share one callback, because a callback for each would cost as much as the record itself. A report
        does not identify its tuple, so all tuples of the group fail if one record is not delivered.
        """
        missing, ended = len(group.indices), self._groups

        def report(error: Any, message: Any) -> None:
            nonlocal missing
            if error is not None:
                group.errors.append((error, message))
            missing -= 1
            if not missing:
                ended.append(group)

        return report

    def handle(self) -> None:
        """Acks and fails tuples by the reports that have arrived."""
        while self._groups:
            self._handle_group(self._groups.popleft())
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

    def _handle_group(self, group: "WriteGroup") -> None:
        if not group.errors:
            self._ack_group(group)
            return
        error, message = group.errors[0]
        for tuple_ in group.open_tuples():
            self._fail((tuple_, group.topic, error, message), True)


class WriteGroup:
    """Tuples of one pack, with one record each that is written to one topic.

    It has the indices of the tuples, and the tuples themselves only for hooks.

    Attributes:
        pack: the pack of the tuples.
        indices: the index of each tuple in the pack.
        topic: the topic of the records.
        errors: the error, and the message or None, of each record that was not delivered.
    """

    __slots__ = ("_tuples", "errors", "indices", "pack", "topic")

    def __init__(self, pack: InputPack, indices: Sequence[int], topic: str, tuples: Sequence[Tuple] = ()) -> None:
        self.pack, self.indices, self.topic = pack, indices, topic
        self._tuples = tuples
        self.errors: list[tuple[Any, Any]] = []

    def open_indices(self) -> list[int]:
        """The indices of the tuples that are not settled."""
        settled = self.pack.settled
        return [index for index in self.indices if not settled[index]]

    def open_tuples(self) -> list[Tuple]:
        """The tuples that are not settled; without values, unless there are hooks."""
        if self._tuples:
            return [each for each in self._tuples if not each.settled]
        return [self.pack.tuple_at(index, ()) for index in self.open_indices()]
