"""Mocked spouts, which emit the messages that a test gives them, and the replacement of components."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from spout_sdk.api.context import TaskContext
from spout_sdk.api.topology import Factory, Topology
from spout_sdk.spouts.spout import Spout, SpoutCollector
from spout_sdk.testing.broker import SimulationError
from tuple_tree.components import BoltManifest, SpoutManifest
from tuple_tree.streams import DEFAULT_STREAM


class _Numbered:
    def __repr__(self) -> str:
        return "NUMBERED"


NUMBERED: Any = _Numbered()
"""Stands for the default message id, which is the number of messages that the source was given before."""


@dataclass(frozen=True, slots=True)
class FixedTuple:
    """A message of a mocked source.

    Attributes:
        values: a value for each field of the stream.
        stream: one of the spout's streams.
        message_id: the id that `ack` or `fail` gets; by default the number of the message, from 0; None for an
            untracked tuple.
    """

    values: Sequence[Any]
    stream: str = DEFAULT_STREAM
    message_id: Any = NUMBERED


class MockedMessages:
    """The messages of a mocked spout that are not emitted yet; each task takes the next one."""

    def __init__(self, messages: Iterable[Sequence[Any] | FixedTuple]) -> None:
        self._waiting: deque[FixedTuple] = deque()
        self._given = 0
        for message in messages:
            self.add(message if isinstance(message, FixedTuple) else FixedTuple(message))

    def add(self, message: FixedTuple) -> Any:
        """Adds a message; returns its message id."""
        if message.message_id is NUMBERED:
            message = FixedTuple(message.values, message.stream, self._given)
        self._given += 1
        self._waiting.append(message)
        return message.message_id

    def take(self) -> FixedTuple | None:
        return self._waiting.popleft() if self._waiting else None


class FixedSpout(Spout):
    """Emits the messages of a source, each once: messages that fail are not emitted again."""

    def __init__(self, source: MockedMessages) -> None:
        self._source = source

    def open(self, _context: TaskContext, collector: SpoutCollector) -> None:
        self._collector = collector

    def next_tuple(self) -> None:
        message = self._source.take()
        if message is not None:
            self._collector.emit(message.values, message_id=message.message_id, stream=message.stream)


def replaced(topology: Topology, sources: Mapping[str, MockedMessages], bolts: Mapping[str, Factory]) -> Topology:
    """The topology with some spouts mocked and some bolts replaced; the other components must run in the SDK."""
    manifest = topology.manifest
    factories: dict[str, Any] = dict(topology.factories)
    for kind, named, given in (("spout", SpoutManifest, sources), ("bolt", BoltManifest, bolts)):
        for name in given:
            if not any(one.name == name and isinstance(one, named) for one in manifest.components):
                known = ", ".join(one.name for one in manifest.components if isinstance(one, named))
                raise SimulationError(f"topology {topology.name!r} has no {kind} {name!r} to replace: it has {known}")
    for name, source in sources.items():
        factories[name] = lambda source=source: FixedSpout(source)
    factories.update(bolts)
    components = []
    for one in manifest.components:
        stands_in = one.name in sources or one.name in bolts
        if one.external and not stands_in:
            argument = "sources" if isinstance(one, SpoutManifest) else "bolts"
            raise SimulationError(
                f"component {one.name!r} is external, so it cannot be run here: give it a stand-in, "
                f"{argument}={{{one.name!r}: ...}}"
            )
        components.append(one.model_copy(update={"external": False}) if stands_in else one)
    changed = manifest.model_copy(update={"components": tuple(components)})
    return replace(topology, manifest=changed, factories=factories)
