"""Deliveries that acks of tuples wait for: records that bolts write for them, and their dead letters."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from spout_sdk.api.tuples import Tuple

Report = tuple[Tuple, str, Any, Any]  # tuple, topic, the error or None, and the message or None, as reported

Sent = tuple[str, bytes | None, bytes | None]  # topic, key and value of a record


class PendingWrites:
    """Counts the undelivered records of each tuple: it is acked when all are delivered, and fails when one is not.

    Delivery reports arrive at any time, while another record is sent, too. They are queued, and `handle` is called
    between two calls of the bolt, so a tuple is never acked between two writes of one `execute`.

    Args:
        ack: acks a tuple, all of whose records are delivered.
        fail: called with each report of a record that was not delivered, and whether its tuple is to be failed.
        ack_together: acks tuples of one record.
    """

    def __init__(
        self,
        ack: Callable[[Tuple], None],
        fail: Callable[[Report, bool], None],
        ack_together: Callable[[Sequence[Tuple]], None],
    ) -> None:
        self._ack = ack
        self._ack_together = ack_together
        self._fail = fail
        self.undelivered: dict[Tuple, int] = {}  # records of each tuple, also those whose report is queued
        self.acked: set[Tuple] = set()  # which the bolt has acked itself meanwhile
        self._reports: deque[Report] = deque()
        self._groups: deque[WriteGroup] = deque()  # of which all records are reported

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

    def group(self) -> "WriteGroup":
        """A group of tuples for which one record each is written."""
        return WriteGroup(self._groups)

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
        for report in group.undelivered():
            self._fail(report, True)
        self._ack_together([tuple_ for tuple_ in group.tuples if not tuple_.settled])


class WriteGroup:
    """Tuples of one record for which one record each is written; they are acked together when all are reported.

    All records have one callback, because one for each would cost as much as the record. A report does not say which
    tuple it is of, so each one fails whose record has the topic, the key and the value of one that was not delivered.

    Args:
        reported: where it is put when all records are reported.

    Attributes:
        tuples: those whose records were sent.
        sent: the record of each.
    """

    __slots__ = ("_errors", "_missing", "_reported", "sent", "tuples")

    def __init__(self, reported: "deque[WriteGroup]") -> None:
        self._reported = reported
        self.tuples: list[Tuple] = []
        self.sent: list[Sent] = []
        self._missing = 0  # reports, once all are sent; until then, the negative of those that have come
        self._errors: list[tuple[int, Any, Any]] = []  # how many were sent, the error, and the message or None

    def report(self, error: Any, message: Any) -> None:
        """The delivery report of a record; one without a message is that of the record that is being sent."""
        if error is not None:
            self._errors.append((len(self.sent), error, message))
        self._missing -= 1
        if not self._missing:
            self._reported.append(self)

    def end(self) -> None:
        """All records are sent."""
        self._missing += len(self.sent)
        if self.sent and not self._missing:
            self._reported.append(self)

    def undelivered(self) -> list[Report]:
        """A report for each tuple whose record was not delivered."""
        reports: dict[int, Report] = {}
        for sent, error, message in self._errors:
            failed = [sent - 1]
            if message is not None:
                record = message.topic(), message.key(), message.value()
                failed = [at for at, each in enumerate(self.sent) if each == record]
            for at in failed:
                reports.setdefault(at, (self.tuples[at], self.sent[at][0], error, message))
        return list(reports.values())
