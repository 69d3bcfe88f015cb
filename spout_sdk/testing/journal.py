"""What the tasks of a component emitted, executed, acked and failed, for tests to read."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import signature
from itertools import repeat
from typing import Any

from spout_sdk.api.components import Failure
from spout_sdk.api.tuples import Tuple
from spout_sdk.bolts.arrow_collector import ArrowInput, ColumnOutput, Emission
from spout_sdk.bolts.bolt_task import BoltTask
from spout_sdk.records import Clock
from spout_sdk.spouts.spout_collector import SpoutCollector
from spout_sdk.spouts.spout_task import SpoutTask
from tuple_tree.anchors import Rows
from tuple_tree.messages import FailReason
from tuple_tree.streams import DEFAULT_STREAM, Values


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


class Journal:
    """What the tasks of one component did, those that were killed included."""

    def __init__(self, clock: Clock) -> None:
        self.emitted: list[Emitted] = []
        self.outcomes: list[Outcome] = []
        self._executed: list[tuple[int, Values]] = []
        self._emitting = False
        self._clock = clock

    def watch_spout(self, task: SpoutTask, number: int) -> None:
        """Records what a spout task emits, and the outcomes of its trees."""
        task.collector.is_watched = True
        self._watch_emits(task.collector, number)
        spout = task.spout
        ack, fail = spout.ack, spout.fail

        def acked(message_id: Any) -> None:
            self.outcomes.append(Outcome(message_id, number, None, self._clock()))
            ack(message_id)

        def failed(message_id: Any, reason: Failure) -> None:
            self.outcomes.append(Outcome(message_id, number, reason, self._clock()))
            fail(message_id, reason)

        _override(spout, "ack", acked)
        _override(spout, "fail", failed)

    def watch_bolt(self, task: BoltTask, number: int) -> None:
        """Records what a bolt task emits, acks and fails."""
        collector = task.collector
        collector.is_watched = True
        self._watch_emits(collector, number)
        if task.takes_columns:
            self._watch_columns(task.columns, number)
        ack, fail = collector.ack, collector.fail

        def acked(tuple_: Tuple) -> None:
            ack(tuple_)
            self.outcomes.append(Outcome(tuple_.values, number, None, self._clock()))

        def failed(tuple_: Tuple, message: str = "") -> None:
            fail(tuple_, message)
            failure = Failure(FailReason.FAILED, message)
            self.outcomes.append(Outcome(tuple_.values, number, failure, self._clock()))

        _override(collector, "ack", acked)
        _override(collector, "fail", failed)

    def _watch_columns(self, output: ColumnOutput, number: int) -> None:
        emit, acked = output.emit, output.acked

        def emitted(input_: ArrowInput, data: Any, anchors: Rows | None, stream: str) -> Emission:
            emission = emit(input_, data, anchors, stream)
            parents = repeat(()) if anchors is None else ((tuple_,) for tuple_ in input_.tuples(anchors))
            for (values, tasks), anchored in zip(emission.tuples(), parents, strict=False):
                roots = tuple(dict.fromkeys(root for anchor in anchored for root in anchor.roots)) if tasks else ()
                self.emitted.append(Emitted(values, stream, number, None, anchored, roots, tasks, self._clock()))
            return emission

        def acked_rows(input_: ArrowInput, rows: Rows) -> None:
            acked(input_, rows)
            for tuple_ in input_.tuples(rows):
                self.outcomes.append(Outcome(tuple_.values, number, None, self._clock()))

        _override(output, "emit", emitted)
        _override(output, "acked", acked_rows)

    def hand_over(self, task: int, tuples: Sequence[Tuple]) -> None:
        """Records what a bolt task gets to execute."""
        self._executed += [(task, tuple_.values) for tuple_ in tuples]

    def executed(self, task: int | None) -> list[Values]:
        """The values of what was executed, by all tasks or one; records that could not be read are left out."""
        return [values for number, values in self._executed if task is None or number == task]

    def _watch_emits(self, collector: Any, number: int) -> None:
        for name in dir(collector):
            if name.startswith("emit"):
                _override(collector, name, self._recording(collector, getattr(collector, name), number))

    def _recording(self, collector: Any, emit: Callable[..., Any], number: int) -> Callable[..., Any]:
        bind = signature(emit).bind

        def recorded(*args: Any, **kwargs: Any) -> Any:
            if self._emitting:  # one way to emit, called by another
                return emit(*args, **kwargs)
            self._emitting = True
            try:
                recipients = emit(*args, **kwargs)
            finally:
                self._emitting = False
            arguments = bind(*args, **kwargs).arguments
            anchors = arguments.get("anchors") or ()
            anchors = (anchors,) if isinstance(anchors, Tuple) else tuple(anchors)
            if isinstance(collector, SpoutCollector):
                roots = () if collector.last_root is None else (collector.last_root,)
            else:
                roots = tuple(dict.fromkeys(root for anchor in anchors for root in anchor.roots))
            self.emitted.append(
                Emitted(
                    values=tuple(arguments["values"]),
                    stream=arguments.get("stream", DEFAULT_STREAM),
                    task=number,
                    message_id=arguments.get("message_id"),
                    anchors=anchors,
                    roots=roots if recipients else (),
                    recipients=tuple((bolt, task) for bolt, task in recipients),
                    at=self._clock(),
                )
            )
            return recipients

        return recorded


def _override(instance: object, name: str, function: Callable[..., Any]) -> None:
    """Puts a function before a method of one instance, whatever its class thinks of being changed."""
    object.__setattr__(instance, name, function)
