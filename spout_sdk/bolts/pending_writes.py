"""Deliveries that the ack of a tuple waits for: records that its bolt writes for it, and its dead letter."""

from collections import deque
from collections.abc import Callable
from typing import Any

from spout_sdk.api.tuples import Tuple

Report = tuple[Tuple, str, Any, Any]  # tuple, topic, the error or None, and the message or None, as reported


class PendingWrites:
    """Counts the undelivered records of each tuple: it is acked when all are delivered, and fails when one is not.

    Delivery reports arrive at any time, while another record is sent, too. They are queued, and `handle` is called
    between two calls of the bolt, so a tuple is never acked between two writes of one `execute`.

    Args:
        ack: acks a tuple, all of whose records are delivered.
        fail: called with each report of a record that was not delivered, and whether its tuple is to be failed.
    """

    def __init__(self, ack: Callable[[Tuple], None], fail: Callable[[Report, bool], None]) -> None:
        self._ack = ack
        self._fail = fail
        self.undelivered: dict[Tuple, int] = {}  # records of each tuple, also those whose report is queued
        self.acked: set[Tuple] = set()  # which the bolt has acked itself meanwhile
        self._reports: deque[Report] = deque()

    def expect(self, tuple_: Tuple) -> None:
        """Counts a record, before it is sent."""
        self.undelivered[tuple_] = self.undelivered.get(tuple_, 0) + 1

    def withdraw(self, tuple_: Tuple) -> None:
        """A record that was counted was not sent, as the call raised."""
        self.undelivered[tuple_] -= 1
        if not self.undelivered[tuple_]:
            del self.undelivered[tuple_]

    def report(self, tuple_: Tuple, topic: str, error: Any = None, message: Any = None) -> None:
        """The delivery report of a record; queued for `handle`."""
        self._reports.append((tuple_, topic, error, message))

    def forget(self, tuple_: Tuple) -> None:
        """The tuple has failed: what is still delivered for it changes nothing."""
        self.undelivered.pop(tuple_, None)
        self.acked.discard(tuple_)

    def handle(self) -> None:
        """Acks and fails tuples by the reports that have arrived."""
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
