"""The contract's world in memory: the simulated cluster."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from spout_sdk import Stats, Topology, TopologyBuilder
from spout_sdk.testing import SimulatedCluster
from tests.contract.world import Read, Running

T = TypeVar("T")

STEP_SECONDS = 0.1
DEADLINE_SECONDS = 60


class InMemory(Running):
    """A topology on a simulated cluster."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster = cluster
        self.topology = cluster.topology

    def eventually(self, condition: Callable[[], T], what: str) -> T:
        self.cluster.run_until_idle()
        end = self.cluster.now + DEADLINE_SECONDS
        while not (value := condition()):
            assert self.cluster.now < end, f"not within {DEADLINE_SECONDS} s: {what}"
            self.cluster.advance(STEP_SECONDS)
        return value

    def let_pass(self, seconds: float) -> None:
        self.cluster.advance(seconds)

    def records(self, topic: str) -> list[Read]:
        return [
            Read(
                record.partition(),
                record.offset(),
                record.key(),
                record.value(),
                tuple((name, value) for name, value in record.headers() or () if isinstance(value, bytes)),
                record.timestamp()[0],
            )
            for record in self.cluster.broker.records(topic)
        ]

    def append(self, topic: str, partition: int, value: bytes, headers: list[tuple[str, bytes]]) -> None:
        self.cluster.broker.append(topic, partition, None, value, [*headers])

    def committed(self, bolt: str) -> dict[int, int]:
        tasks = self.topology.manifest.component(bolt).tasks
        return {**dict.fromkeys(range(tasks), 0), **self.cluster.committed(bolt)}

    def stats(self, component: str) -> Stats:
        return self.cluster.stats(component)


class InMemoryWorld:
    """Simulated clusters.

    Args:
        seed: of each.
        pack_tuples: how many tuples a record carries at most.
    """

    def __init__(self, seed: int, pack_tuples: int) -> None:
        self._seed = seed
        self._pack_tuples = pack_tuples

    def builder(self, **settings: Any) -> TopologyBuilder:
        return TopologyBuilder("contract", **{"pack_tuples": self._pack_tuples, **settings})

    @contextmanager
    def run(self, topology: Topology) -> Iterator[InMemory]:
        with SimulatedCluster(topology, seed=self._seed) as cluster:
            yield InMemory(cluster)
