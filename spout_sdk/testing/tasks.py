"""The processes of a simulated cluster: each runs a loop with clients in memory, a turn at a time.

A process of a component runs one task; the process of the ackers has all partitions of the ack log.
"""

from dataclasses import replace
from typing import Any, Final

from acker_worker.acker_loop import AckerLoop
from kafka_clients.access import ACKER
from kafka_clients.catalogue import Catalogue
from kafka_clients.control_reader import ControlReader
from spout_sdk.api.topology import Topology
from spout_sdk.bolts.bolt_task import BoltTask
from spout_sdk.runtime.bolt_loop import BoltLoop
from spout_sdk.runtime.component_runner import component_loop
from spout_sdk.runtime.execute_watch import Limits
from spout_sdk.runtime.periodic_resets import PeriodicResets
from spout_sdk.runtime.task_loop import ComponentProcess
from spout_sdk.runtime.timeout_resets import TimeoutResets
from spout_sdk.spouts.spout_task import SpoutTask
from spout_sdk.statistics.stats import Counters, Stats
from spout_sdk.testing.broker import MemoryBroker
from spout_sdk.testing.chance import SeededEntropy, SimulatedClock
from spout_sdk.testing.clients import MemoryClients
from tuple_tree.control import Control
from tuple_tree.manifest import Manifest

LIMITLESS: Final = 10**12
LINGER_TURNS: Final = 4
"""Busy turns in a row after which buffered records are flushed: no time passes, so they cannot linger by the clock."""


class RequestedState(ControlReader):
    """The requested state of a simulated topology, which all of its spouts follow at once."""

    def __init__(self) -> None:
        self.control = Control()

    def look(self, now: float) -> None:
        """Does nothing: the state is set."""

    def close(self) -> None:
        """Does nothing."""


class SimulatedProcess:
    """A process that runs one task."""

    def __init__(
        self,
        topology: Topology,
        component: str,
        task: int,
        broker: MemoryBroker,
        clock: SimulatedClock,
        entropy: SeededEntropy,
        control: RequestedState,
    ) -> None:
        self.name = component
        self._number = task
        self._clock = clock
        self._clients = MemoryClients(broker, [task])
        process = ComponentProcess(
            *(topology, component, self._clients.settings, clock, entropy, Counters()),
            on_tick=lambda _now: None,
            stopping=lambda: False,
            wall_ms=lambda: clock.broker_ms,
            # A restore reads without the limit of a turn.
            state_kafka=MemoryClients(broker, [task], room=LIMITLESS).settings,
            control=control,
        )
        self._loop = component_loop(process, str(task))
        # With exactly_once each turn ends with its commit, so that only a kill makes a tuple be executed twice.
        self._linger = 1 if topology.manifest.guarantee_of(component) == "exactly_once" else LINGER_TURNS
        self._unflushed = 0  # busy turns since the last flush
        self._loop.join()
        self._kept = self._periodic_resets(topology, component, broker, entropy)
        self._task: SpoutTask | BoltTask = self._loop.tasks[task]

    @property
    def task(self) -> SpoutTask | BoltTask:
        """The `SpoutTask` or `BoltTask`; the last one if the loop has ended."""
        self._task = self._loop.tasks.get(self._number, self._task)
        return self._task

    def stats(self, component: str) -> Stats:
        """Statistics of its component, or of a bolt that is chained to it."""
        stats = next(each for each in (self._loop.stats(), *self._loop.chained_stats()) if each.component == component)
        return replace(stats, pids=(), tasks=(self._number,))

    def bolt(self, component: str) -> Any:
        return next((step.bolt for step in self.task.steps if step.id.component == component), None)

    def turn(self, limit: int) -> bool:
        """Runs one turn of the loop, which reads at most `limit` records; returns whether there was any work."""
        self._clients.room = limit
        is_busy = self._loop.turn()
        if isinstance(self._loop, BoltLoop):
            now = self._clock()
            self._kept.keep(self._kept.waited_for(self._loop.tasks, now), now)
        self._unflushed += is_busy
        if self._unflushed >= (self._linger if is_busy else 1):
            self._loop.flush()
            self._unflushed = 0
        task = self.task
        return is_busy or (isinstance(task, SpoutTask) and task.is_due(self._clock()))

    def _periodic_resets(
        self, topology: Topology, component: str, broker: MemoryBroker, entropy: SeededEntropy
    ) -> PeriodicResets:
        """Creates the resets that keep trees alive while a task is paused; in a real process a thread sends them."""
        manifest = topology.manifest
        clients = MemoryClients(broker, [self._number], room=LIMITLESS)
        resets = TimeoutResets(manifest, component, clients.settings, entropy) if manifest.acking else None
        return PeriodicResets(resets, Limits.of(manifest, component, {}).timeout)

    def end(self) -> None:
        self._loop.end()
        self._loop.close()


class SimulatedAcker:
    """The process of the ackers of a topology."""

    name: Final = ACKER

    def __init__(self, manifest: Manifest, broker: MemoryBroker, clock: SimulatedClock) -> None:
        self._clients = MemoryClients(broker, range(manifest.ack_partitions))
        kafka = self._clients.settings
        self._loop = AckerLoop(manifest, kafka, Catalogue(kafka), clock=clock)

    def turn(self, limit: int) -> bool:
        """Runs one turn of the loop, which reads at most `limit` records; returns whether there was any work."""
        self._clients.room = limit
        return self._loop.turn()
