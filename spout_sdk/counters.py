"""What a process counts while it runs; `stats.Stats` is a snapshot of it."""

from spout_sdk.latency import LatencyHistogram
from tuple_tree.messages import FailReason


class Counters:
    """Plain integers that the tasks of a process raise; not for other threads.

    Attributes:
        emitted: calls of `emit`.
        transferred: records sent for them, one a recipient.
        executed: tuples handed to a bolt.
        acked: trees acked (spout) or inputs acked (bolt).
        failed: trees or inputs failed, by reason.
        ignored_notices: outcomes of roots that the spout does not hold.
        dead_letters: records that could not be used.
        undelivered: tuples that Kafka did not take.
        transactions: of a bolt with `exactly_once`, that were committed.
        rollbacks: how often what was not committed was undone.
        users: counters of `TaskContext.count`.
        complete_latency: from emit to ack, at the spout.
    """

    __slots__ = (
        "acked",
        "complete_latency",
        "dead_letters",
        "emitted",
        "executed",
        "failed",
        "ignored_notices",
        "rollbacks",
        "transactions",
        "transferred",
        "undelivered",
        "users",
    )

    def __init__(self) -> None:
        self.emitted = 0
        self.transferred = 0
        self.executed = 0
        self.acked = 0
        self.failed: dict[str, int] = {}
        self.ignored_notices = 0
        self.dead_letters = 0
        self.undelivered = 0
        self.transactions = 0
        self.rollbacks = 0
        self.users: dict[str, int] = {}
        self.complete_latency = LatencyHistogram()

    def count_failed(self, reason: FailReason) -> None:
        """Counts a failed tree or input."""
        word = reason.word
        self.failed[word] = self.failed.get(word, 0) + 1
