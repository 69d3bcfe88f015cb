"""The contract's world in memory: the simulated cluster."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from typing import Any, TypeVar

import pytest

from kafka_clients.access import ACKER
from spout_sdk import Topology, TopologyBuilder
from spout_sdk.statistics import Stats
from spout_sdk.testing import SimulatedCluster, clients
from tests.contract.lives import Killed, Life, Step, living, mortal_consumer, mortal_producer
from tests.contract.world import Read, Running
from tuple_tree.control import ControlState
from tuple_tree.names import tuples_topic

T = TypeVar("T")

DEADLINE_SECONDS = 120
LEAST_STEP = 0.5  # of time, in seconds
STEPS = 30  # within the smallest message timeout


class MortalCluster(SimulatedCluster):
    """A simulated cluster whose processes die at the steps of their `lives`, by component and task."""

    def __init__(self, topology: Topology, **options: Any) -> None:
        self.lives: dict[tuple[str, int], Life] = {}
        timeout = min(spout.timeout_ms for spout in topology.manifest.spouts) / 1000
        self.seconds = max(LEAST_STEP, timeout / STEPS)
        super().__init__(topology, step=self.seconds, **options)

    def _begin(self, component: str, number: int) -> None:
        self.lives[component, number] = life = Life(component)
        with living(life):
            super()._begin(component, number)

    def kill_acker(self) -> None:
        self.lives[ACKER, 0] = life = Life(ACKER)
        with living(life):
            super().kill_acker()

    def _turns(self) -> list[tuple[str, Callable[[int], bool]]]:
        numbers: defaultdict[str, Iterator[int]] = defaultdict(count)
        return [
            (name, partial(self._turn, self.lives[name, next(numbers[name])], turn)) for name, turn in super()._turns()
        ]

    def _turn(self, life: Life, turn: Callable[[int], bool], limit: int) -> bool:
        with living(life):
            return not life.is_dead and turn(limit)


class InMemory(Running):
    """A topology on a simulated cluster."""

    def __init__(self, cluster: MortalCluster) -> None:
        self.cluster = cluster
        self.topology = cluster.topology
        self.deaths = 0

    def eventually(self, condition: Callable[[], T], what: str) -> T:
        self._work(self.cluster.run_until_idle)
        end = self.cluster.now + DEADLINE_SECONDS
        while not (value := condition()):
            assert self.cluster.now < end, f"not within {DEADLINE_SECONDS} s: {what}"
            self.let_pass(self.cluster.seconds)
        return value

    def let_pass(self, seconds: float) -> None:
        self._work(lambda: self.cluster.advance(seconds))

    def _work(self, work: Callable[[], None]) -> None:
        """Works until no process is dead."""
        while True:
            with suppress(Killed):
                work()
            dead = [place for place, life in self.cluster.lives.items() if life.is_dead]
            if not dead:
                return
            for component, task in dead:
                self.deaths += 1
                if component == ACKER:
                    self.cluster.kill_acker()
                else:
                    self.cluster.kill(component, task)
            work = self.cluster.run_until_idle

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

    def lag(self, component: str) -> int:
        if component in self.topology.kafka_sources:
            return sum(self.cluster.uncommitted(component).values())
        inbox = tuples_topic(self.topology.name, component)
        return sum(self.cluster.broker.end(inbox, task) - at for task, at in self.committed(component).items())

    def state(self, bolt: str) -> dict[Any, Any]:
        return self.cluster.state(bolt)

    def stats(self, component: str) -> Stats:
        return self.cluster.stats(component)

    def kill(self, component: str) -> None:
        for (name, _), life in self.cluster.lives.items():
            life.is_dead |= name == component

    def kill_at(self, component: str, step: Step, after: int = 0) -> None:
        self.cluster.lives[component, 0].arm(step, after)

    def restart(self, component: str) -> None:
        if component == ACKER:
            self.cluster.kill_acker()
        else:
            self.cluster.restart(component)

    def pause(self, component: str) -> None:
        self.cluster.pause(component)

    def resume(self, component: str) -> None:
        self.cluster.resume(component)

    def request(self, state: ControlState) -> None:
        self.cluster.request(state)


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
    def run(self, topology: Topology, topics: Mapping[str, int] | None = None) -> Iterator[InMemory]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(clients, "MemoryProducer", mortal_producer(clients.MemoryProducer))
            patch.setattr(clients, "MemoryConsumer", mortal_consumer(clients.MemoryConsumer))
            cluster = MortalCluster(topology, seed=self._seed, topics=topics)
            with cluster:
                yield InMemory(cluster)
