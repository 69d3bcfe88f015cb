"""The base of sources: how a task calls the spouts of one kind.

Each kind of spout names its source in its `needs`.
"""

from collections.abc import Sequence
from typing import Any

from spout_sdk.api.retry import RetryPolicy
from tuple_tree.messages import Failure
from tuple_tree.source_messages import SourceMessages


class SpoutSource:
    """Calls a `Spout`; the base of other sources.

    Attributes:
        calls: the largest number of calls of the spout before other tasks have a turn and outcomes are handled.
        waits: whether `wait` returns as soon as there is a message.
        messages: the messages that are replayed and committed; none of a `Spout`.

    Args:
        spout: the instance that the user's factory has made.
        task: the `SpoutTask`.
    """

    calls = 64
    waits = False

    def __init__(self, spout: Any, task: Any) -> None:
        self._spout = spout
        self._task = task
        self.messages = SourceMessages(RetryPolicy().delay)

    def open(self) -> None:
        """Calls the spout's `open`."""
        self._spout.open(self._task.context, self._task.collector)

    def emit(self, calls: int, limit: int) -> None:
        """Emits until there is nothing to emit, `limit` trees are open, or the spout was called `calls` times."""
        task = self._task
        counters, trees, untracked = task.environment.counters, task.open_trees, task.untracked
        next_tuple, emitted = self._spout.next_tuple, counters.emitted
        for _ in range(calls):
            next_tuple()
            if untracked:
                task.ack_untracked()
            if counters.emitted == emitted or len(trees) >= limit:
                return
            emitted = counters.emitted

    def emit_failed(self, calls: int, limit: int) -> None:
        """Like `emit`, but emits failed messages only; a `Spout` emits these in `next_tuple`, with new ones."""

    def wait(self, seconds: float) -> bool:  # noqa: ARG002 - of other kinds
        """Waits for a message, at most `seconds`; returns whether there is one."""
        return False

    def acked(self, message_ids: Sequence[Any]) -> None:
        """Calls the spout's `ack` for messages whose trees were fully processed."""
        ack = self._spout.ack
        for message_id in message_ids:
            ack(message_id)

    def done(self, message_ids: Sequence[Any], failure: Failure | None = None) -> None:
        """Notes that trees were fully processed: after `acked`, or before it if they have ended in a transaction.

        `failure` is that of a tuple of theirs that became a dead letter.
        """

    def failed(self, message_id: Any, failure: Failure) -> None:
        """Calls the spout's `fail` for a message whose tree was not fully processed."""
        self._spout.fail(message_id, failure)

    def tick(self, now: float) -> None:
        """Does the work that is due at a time of the task's clock."""

    def is_due(self, now: float) -> bool:  # noqa: ARG002 - of other kinds
        """Whether it is known that there is a message to emit now."""
        return False

    def close(self) -> None:
        """Calls the spout's `close`."""
        self._spout.close()
