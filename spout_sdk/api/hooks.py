"""Hooks: code of yours that is called when a task emits, executes, acks or fails.

A hook belongs to one task and runs in its thread; what it raises counts as raised by the component. Without hooks
nothing is paid for them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spout_sdk.api.components import Failure
    from spout_sdk.api.context import TaskContext
    from spout_sdk.api.task_id import TaskId
    from spout_sdk.api.tuples import Tuple


@dataclass(frozen=True, slots=True)
class EmitInfo:
    """A tuple was emitted.

    Attributes:
        values: of its fields.
        stream: the stream that it was emitted to.
        tasks: who receives a copy.
        message_id: what the spout called it; None for an untracked tuple and for bolts.
    """

    values: Sequence[Any]
    stream: str
    tasks: "tuple[TaskId, ...]"
    message_id: Any = None


class TaskHook:
    """Derive from it, and override what you want to hear of."""

    def prepare(self, context: "TaskContext") -> None:
        """The task begins; called when the hook is added."""

    def cleanup(self) -> None:
        """The task ends."""

    def emit(self, emitted: EmitInfo) -> None:
        """A spout or bolt has emitted."""

    def spout_ack(self, message_id: Any, seconds: float) -> None:
        """A tree was fully processed, so long after its tuple was emitted; called before the spout's `ack`."""

    def spout_fail(self, message_id: Any, failure: "Failure") -> None:
        """A tree has failed; called before the spout's `fail`."""

    def bolt_execute(self, tuple_: "Tuple", seconds: float) -> None:
        """`execute` has returned, or raised, after so long."""

    def bolt_ack(self, tuple_: "Tuple") -> None:
        """A bolt has acked a tuple."""

    def bolt_fail(self, tuple_: "Tuple", message: str) -> None:
        """A bolt has failed a tuple."""


HookFactory = Callable[[], TaskHook]
"""Makes the hook of one task: a class, or anything that is called without arguments."""
