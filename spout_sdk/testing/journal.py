"""What the tasks of a component emitted, executed, acked and failed, for tests to read."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from spout_sdk.api.components import Failure
from spout_sdk.api.context import EmitInfo, TaskContext, TaskHook
from spout_sdk.api.tuples import Tuple
from spout_sdk.records import Clock
from tuple_tree.messages import FailReason
from tuple_tree.streams import Values


@dataclass(frozen=True, slots=True)
class Emitted:
    """One call of `emit`.

    Attributes:
        values: what was emitted.
        stream: to which stream.
        task: by which task of the component.
        message_id: what a spout emitted it with; None for an untracked tuple, and for a bolt.
        anchors: the inputs that a bolt anchored it to.
        roots: the trees that it joined; empty for an untracked tuple, and for one without recipients.
        recipients: bolt and task of each delivery.
        at: when, in seconds since the beginning.
    """

    values: Values
    stream: str
    task: int
    message_id: Any
    anchors: tuple[Tuple, ...]
    roots: tuple[int, ...]
    recipients: tuple[tuple[str, int], ...]
    at: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """A message of a spout, or an input of a bolt, that was acked or failed.

    Attributes:
        what: the message id, or the values of the input.
        task: of which task.
        failure: why; None if it was acked.
        at: when, in seconds since the beginning.
    """

    what: Any
    task: int
    failure: Failure | None
    at: float


@dataclass(slots=True)
class Journal:
    """What the tasks of one component did, those that were killed included."""

    emitted: list[Emitted] = field(default_factory=list)
    executed: list[tuple[int, Values]] = field(default_factory=list)  # by which task, and the values
    outcomes: list[Outcome] = field(default_factory=list)


class JournalHook(TaskHook):
    """The hook of each task; writes to the journal of its component."""

    def __init__(self, journals: Mapping[str, Journal], clock: Clock) -> None:
        self._journals = journals
        self._clock = clock

    def prepare(self, context: TaskContext) -> None:
        self._journal = self._journals[context.component]
        self._task = context.task

    def emit(self, emitted: EmitInfo) -> None:
        self._journal.emitted.append(
            Emitted(
                values=tuple(emitted.values),
                stream=emitted.stream,
                task=self._task,
                message_id=emitted.message_id,
                anchors=tuple(emitted.anchors),
                roots=emitted.roots if emitted.tasks else (),
                recipients=tuple((bolt, task) for bolt, task in emitted.tasks),
                at=self._clock(),
            )
        )

    def spout_ack(self, message_id: Any, _seconds: float) -> None:
        self._add_outcome(message_id, None)

    def spout_fail(self, message_id: Any, failure: Failure) -> None:
        self._add_outcome(message_id, failure)

    def bolt_execute(self, tuple_: Tuple, _seconds: float) -> None:
        self._journal.executed.append((self._task, tuple_.values))

    def bolt_ack(self, tuple_: Tuple) -> None:
        self._add_outcome(tuple_.values, None)

    def bolt_fail(self, tuple_: Tuple, message: str) -> None:
        self._add_outcome(tuple_.values, Failure(FailReason.FAILED, message))

    def _add_outcome(self, what: Any, failure: Failure | None) -> None:
        self._journal.outcomes.append(Outcome(what, self._task, failure, self._clock()))
