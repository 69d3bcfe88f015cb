"""Spouts with a source whose offsets they commit: what a task calls of them besides Storm's methods."""

from collections.abc import Sequence
from typing import Any

from spout_sdk.api.components import Spout
from spout_sdk.api.context import TaskContext
from spout_sdk.emitting.environment import TaskEnvironment


class SourceSpout(Spout):
    """A spout that reads and commits in its task's loop; `KafkaSpout` is one."""

    def attach(self, context: TaskContext, environment: TaskEnvironment) -> None:
        """Called before `open`; raises `TopologyError` if the spout cannot run in this topology."""

    def emit(self, most: int) -> None:
        """Called in place of `next_tuple`: emits so many messages at most."""
        for _ in range(most):
            self.next_tuple()

    def ack_all(self, message_ids: Sequence[Any]) -> None:
        """The trees of these messages were fully processed."""
        for message_id in message_ids:
            self.ack(message_id)

    def tick(self, now: float) -> None:
        """Called every few milliseconds, also while too many trees are pending."""

    def is_due(self, now: float) -> bool:  # noqa: ARG002
        """Whether there is a message to emit or to read now."""
        return False

    def release(self) -> None:
        """Commits what is done; called at a clean end, before `close`, while the group still accepts commits."""

    def uncommitted(self) -> None:
        """A commit in the background has failed: the next one has to include what it covered."""
