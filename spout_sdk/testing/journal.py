"""What the tasks of a component emitted, executed, acked and failed, for tests to read."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

from spout_sdk.bolt_task import BoltTask
from spout_sdk.components import Failure
from spout_sdk.records import Clock
from spout_sdk.spout_task import SpoutTask
from spout_sdk.testing.broker import MemoryRecord
from spout_sdk.testing.sink import MemorySink
from spout_sdk.tuples import Tuple
from tuple_tree.anchors import ANCHORS_HEADER, SOURCE_HEADER, unpack_anchors
from tuple_tree.errors import WireError
from tuple_tree.manifest import Manifest
from tuple_tree.messages import FailReason
from tuple_tree.streams import DEFAULT_STREAM, PayloadCodec, Values, payload_codec


@dataclass(frozen=True, slots=True)
class Emitted:
    """One call of `emit`.

    Attributes:
        values: what was emitted.
        stream: to which stream.
        task: by which task of the component.
        message_id: what a spout emitted it with; None for an untracked tuple, and for a bolt.
        anchors: the inputs that a bolt anchored it to.
        roots: the trees that it joined; empty for an untracked tuple, and for one that nobody receives.
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
    """What the tasks of one component did, those that were killed included.

    Args:
        manifest: of the topology.
        clock: seconds since the beginning.

    Attributes:
        emitted: calls of `emit`, in order.
        outcomes: what was acked and failed, in order.
    """

    def __init__(self, manifest: Manifest, clock: Clock) -> None:
        self.emitted: list[Emitted] = []
        self.outcomes: list[Outcome] = []
        self._handed_over: list[MemoryRecord] = []
        self._executed: list[tuple[int, Values]] = []
        self._emitting = False
        self._inbox_prefix = f"{manifest.topology}.tuples."
        self._codecs = _codecs(manifest)
        self._clock = clock

    def watch_spout(self, task: SpoutTask, number: int, sink: MemorySink) -> None:
        """Writes down what a spout task emits, and the outcomes that its spout hears."""
        self._watch_emits(task.collector, number, sink)
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

    def watch_bolt(self, task: BoltTask, number: int, sink: MemorySink) -> None:
        """Writes down what a bolt task emits, acks and fails."""
        collector = task.collector
        self._watch_emits(collector, number, sink)
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

    def hand_over(self, records: Sequence[MemoryRecord]) -> None:
        """Writes down what a bolt task gets to execute."""
        self._handed_over += records

    def executed(self, task: int | None) -> list[Values]:
        """The values of what was executed, by all tasks or one; records that could not be read are left out."""
        # Decoded when somebody asks, and once.
        for record in self._handed_over:
            self._executed += [(record.partition_, values) for values in self._read(record)]
        self._handed_over.clear()
        return [values for number, values in self._executed if task is None or number == task]

    def _read(self, record: MemoryRecord) -> list[Values]:
        headers: dict[str, Any] = dict(record.headers_ or ())
        codec = self._codecs.get(headers.get(SOURCE_HEADER))
        if codec is None or record.value_ is None:
            return []
        try:
            unpack_anchors(headers.get(ANCHORS_HEADER, b""))
            return [codec.decode(record.value_)]
        except WireError:
            return []

    def _watch_emits(self, collector: Any, number: int, sink: MemorySink) -> None:
        for name in dir(collector):
            if name.startswith("emit"):
                _override(collector, name, self._recording(getattr(collector, name), number, sink))

    def _recording(self, emit: Callable[..., Any], number: int, sink: MemorySink) -> Callable[..., Any]:
        bind = signature(emit).bind

        def recorded(*args: Any, **kwargs: Any) -> Any:
            if self._emitting:  # one way to emit, called by another
                return emit(*args, **kwargs)
            self._emitting = True
            sink.sent.clear()
            try:
                result = emit(*args, **kwargs)
            finally:
                self._emitting = False
            said = bind(*args, **kwargs).arguments
            self.emitted.append(self._emitted(said, number, sink.sent))
            return result

        return recorded

    def _emitted(self, said: Mapping[str, Any], number: int, sent: Sequence[MemoryRecord]) -> Emitted:
        anchors = said.get("anchors", ())
        roots: dict[int, None] = {}
        for record in sent:
            for name, value in record.headers_ or ():
                if name == ANCHORS_HEADER and isinstance(value, bytes):
                    roots.update(dict.fromkeys(unpack_anchors(value)))
        return Emitted(
            values=tuple(said["values"]),
            stream=said.get("stream", DEFAULT_STREAM),
            task=number,
            message_id=said.get("message_id"),
            anchors=(anchors,) if isinstance(anchors, Tuple) else tuple(anchors),
            roots=tuple(roots),
            recipients=tuple((record.topic_.removeprefix(self._inbox_prefix), record.partition_) for record in sent),
            at=self._clock(),
        )


def _override(instance: object, name: str, function: Callable[..., Any]) -> None:
    """Puts a function before a method of one instance, whatever its class thinks of being changed."""
    object.__setattr__(instance, name, function)


def _codecs(manifest: Manifest) -> dict[bytes | None, PayloadCodec]:
    return {
        f"{component.name}/{stream.name}".encode(): payload_codec(stream)
        for component in manifest.components
        for stream in component.streams
    }
