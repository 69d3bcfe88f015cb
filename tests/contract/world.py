"""The interface between the contract suite and a world in which topologies run."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol, TypeVar

from spout_sdk import Stats, Topology, TopologyBuilder
from tuple_tree.names import tuples_topic

T = TypeVar("T")


@dataclass(frozen=True)
class Read:
    """A record, in the form of both worlds."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    timestamp_type: int

    @property
    def header(self) -> dict[str, bytes]:
        return dict(self.headers)


class Running(Protocol):
    """A topology that runs."""

    topology: Topology

    def eventually(self, condition: Callable[[], T], what: str) -> T:
        """The condition's first true value; lets the topology work and time pass until then."""
        ...

    def let_pass(self, seconds: float) -> None: ...

    def records(self, topic: str) -> list[Read]:
        """Everything in a topic, partition by partition."""
        ...

    def append(self, topic: str, partition: int, value: bytes, headers: list[tuple[str, bytes]]) -> None:
        """Writes a record, as a client of another program."""
        ...

    def committed(self, bolt: str) -> dict[int, int]:
        """Task → committed offset, 0 if there is none."""
        ...

    def has_committed_all(self, bolt: str) -> bool:
        """Whether a bolt has committed all of its inbox."""
        ends = dict.fromkeys(self.committed(bolt), 0)
        for record in self.records(tuples_topic(self.topology.name, bolt)):
            ends[record.partition] = record.offset + 1
        return self.committed(bolt) == ends

    def stats(self, component: str) -> Stats: ...


class World(Protocol):
    """Where topologies run, each under a name of its own."""

    def builder(self, **settings: object) -> TopologyBuilder: ...

    def run(self, topology: Topology) -> AbstractContextManager[Running]: ...
