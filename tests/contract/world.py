"""The interface between the contract suite and a world in which topologies run."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from spout_sdk import Topology, TopologyBuilder
from spout_sdk.statistics import Stats
from tests.contract.lives import Step
from tuple_tree.control import ControlState
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
    """A topology that runs.

    Attributes:
        deaths: how many processes were killed.
    """

    topology: Topology
    deaths: int

    def eventually(self, condition: Callable[[], T], what: str) -> T:
        """The condition's first true value; lets the topology work and time pass until then."""
        ...

    def let_pass(self, seconds: float) -> None: ...

    def records(self, topic: str) -> list[Read]:
        """Everything in a topic that is committed, partition by partition."""
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

    def lag(self, component: str) -> int:
        """Records after the committed offsets, in the sources of a `KafkaSpout`, or in the inbox of a bolt."""
        ...

    def state(self, bolt: str) -> dict[Any, Any]:
        """The committed values of a bolt's state, by key."""
        ...

    def stats(self, component: str) -> Stats: ...

    def kill(self, component: str) -> None:
        """Ends the process of a component, or of the `acker`, as SIGKILL would; another one takes its place."""
        ...

    def kill_at(self, component: str, step: Step, after: int = 0) -> None:
        """Has the process of a component be killed when it comes to a step, after it was there some times."""
        ...

    def restart(self, component: str) -> None:
        """Stops the process of a component in order, and starts another one."""
        ...

    def pause(self, component: str) -> None:
        """Stops the process of a component, or of the `acker`, as SIGSTOP would."""
        ...

    def resume(self, component: str) -> None: ...

    def request(self, state: ControlState) -> None:
        """Requests a state of the topology."""
        ...


class World(Protocol):
    """Where topologies run, each under a name of its own."""

    def builder(self, **settings: object) -> TopologyBuilder: ...

    def run(self, topology: Topology, topics: Mapping[str, int] = ...) -> AbstractContextManager[Running]:
        """Runs a topology, with topics of these numbers of partitions besides its own."""
        ...
