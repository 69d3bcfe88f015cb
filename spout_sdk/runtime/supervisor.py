"""Runs a whole topology in worker processes, and restarts processes that end."""

import logging
import os
import secrets
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain, cycle, islice
from signal import SIGKILL, Signals
from typing import Any, Final

from kafka_clients import supervision
from kafka_clients.repeated_lines import EACH, get_logger
from kafka_clients.supervision import ChildProcess, Slot, Supervisor, describe_exit
from spout_sdk.api.topology import STOP_TIMEOUT, Topology, load_topology
from spout_sdk.errors import ProcessError, TopologyError
from spout_sdk.kafka.kafka_settings import KafkaSettings, checked
from spout_sdk.statistics.stats import Stats
from tuple_tree.components import Component

logger = get_logger("spout_sdk.runtime.supervisor")

EXIT_CLEAN: Final = 0
EXIT_BROKEN: Final = 1  # the process ran and failed; a restart may help
EXIT_UNUSABLE: Final = 2  # the process could not start; it cannot until the settings or the topology change
EXIT_GAVE_UP: Final = 3  # the process ran, and must not be restarted: too many failures, or a TopologyError
EXIT_NOT_PREPARED: Final = 4  # the component could not be created, prepared or opened
MAX_STARTS: Final = 10
"""If this number of starts in a row fail to prepare the component, without a tuple in between, all processes end."""
_MODULE: Final = "spout_sdk.runtime.process"


@dataclass(frozen=True, slots=True)
class Launch:
    """Parameters of a worker, besides its topology; import path and log level are the supervisor's."""

    kafka: Mapping[str, Any] = field(repr=False)
    slots: Mapping[str, str]  # component → its slot, see `ComponentRunner`; a worker and its successors have the same
    is_new_slot: bool = False  # whether no process has had these slots before
    members: Mapping[str, int] = field(default_factory=dict)  # component → the workers that run it; one by default
    state_directory: str | None = None  # directory of the stores of states; in memory if None
    path: Sequence[str] = field(default_factory=lambda: [os.path.abspath(entry) for entry in sys.path])
    log_level: int = field(default_factory=lambda: logging.getLogger().getEffectiveLevel())
    reports: int = 1  # file descriptor of the pipe that reports go to


def stop_seconds(topology: Topology) -> float:
    """Seconds that the processes of a topology may take to stop: the longest `stop_timeout`, and time to commit."""
    return supervision.STOP_SECONDS + topology.stop_timeout - STOP_TIMEOUT


@dataclass(frozen=True, slots=True)
class Exit:
    """A process that ended and was not stopped.

    Attributes:
        components: the components that the process ran.
        pid: the process id.
        code: the exit code; negative for a signal.
        error: the reason, in one line; empty if the process reported none.
        restarts_in: seconds until the process is started again; None if it is not.
    """

    components: tuple[str, ...]
    pid: int
    code: int
    error: str
    restarts_in: float | None

    def __str__(self) -> str:
        after = "" if self.restarts_in is None else f"; restarting in {self.restarts_in:.1f} s"
        return f"process {self.pid} of {', '.join(self.components)} {describe_exit(self.code, self.error)}{after}"


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def place(components: Sequence[Component], count: int) -> list[list[str]]:
    """The components of each of `count` workers at most: a component is in as many as it has tasks, one after another.

    A worker without a task of a component does not join its group.
    """
    workers: list[list[str]] = [[] for _ in range(min(count, sum(component.tasks for component in components)))]
    places = cycle(workers)
    for component in components:
        for worker in islice(places, min(component.tasks, len(workers))):
            worker.append(component.name)
    return workers


class TopologyRunner(Supervisor[Stats]):
    """Runs a topology in worker processes, which run tasks of all components, each component in a thread of its own.

    The processes end with this process, even if it is killed. A worker ends if one of its components fails; it is
    reported and started again, after a pause that grows each time. In three cases all processes are stopped instead,
    and `wait` raises: if `restart` is False; if a component could not start in the first place, or must not be
    restarted; and if 10 starts in a row, in about a minute, could not create, prepare or open a component, without a
    tuple executed or emitted by it in between.

    Args:
        reference: `module:attribute` of a `Topology`, or of a function that returns one; imported by every process.
        kafka: librdkafka properties.
        processes: the number of workers, or the components of each; as many as there are cores by default, and as many
            as there are tasks at most. A component is in as many of them as it has tasks.
        restart: False to stop everything as soon as one process ends.
        environment: variables that are added to the environment of the processes.
        state_directory: directory of the stores of states, as for `ComponentRunner`.
        on_exit: called with an `Exit`, in a thread of the runner.

    Raises:
        TopologyError: if the reference leads to no topology, or `processes` does not fit it.
        SpoutSdkError: if the Kafka settings do not say where Kafka is.
    """

    def __init__(
        self,
        reference: str,
        kafka: KafkaSettings,
        processes: int | Sequence[Sequence[str]] | None = None,
        *,
        restart: bool = True,
        environment: Mapping[str, str] | None = None,
        state_directory: str | os.PathLike[str] | None = None,
        on_exit: Callable[[Exit], None] | None = None,
    ) -> None:
        super().__init__(Stats.of, Stats.merge, ProcessError)
        self._reference = reference
        self._kafka = checked(kafka)
        self._restart = restart
        self._environment = dict(environment or {})
        self._state_directory = None if state_directory is None else os.path.abspath(state_directory)
        self._on_exited = on_exit
        topology = load_topology(reference)
        self._manifest, self._stop_seconds = topology.manifest, stop_seconds(topology)
        # Slot → component → failed starts in a row, and tuples until then.
        self._failed_starts_of: dict[Slot[Stats], dict[str, tuple[int, int]]] = {}
        # External components run elsewhere, for instance in Spark.
        self._components = [component for component in self._manifest.components if not component.external]
        self._heads = [component for component in self._manifest.heads if not component.external]
        if processes is None or isinstance(processes, int):
            count = cores() if processes is None else processes
            if count < 1:
                raise TopologyError(f"processes is {count}: a topology needs one at least")
            processes = place(self._heads, count)
        self._members = dict(Counter(chain.from_iterable(processes)))
        self._slots = [self._slot(each) for each in self._checked(processes)]

    def wait(self, seconds: float | None = None) -> bool:
        """Waits until all processes have ended; returns False if some still run after `seconds`.

        Raises:
            ProcessError: if a component could not be started, or ended and is not restarted.
        """
        deadline = None if seconds is None else time.monotonic() + seconds
        for thread in self._threads:
            thread.join(None if deadline is None else max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                return False
        if self._failure is not None:
            raise self._failure
        return True

    def wait_ready(self, seconds: float) -> bool:
        """Waits until every task of every component is owned by a process; returns and raises as `wait` does."""
        with self._changed:
            self._changed.wait_for(lambda: self._failure is not None or self.is_ready, seconds)
        if self._failure is not None:
            raise self._failure
        return self.is_ready

    @property
    def is_ready(self) -> bool:
        """Whether every task of every component is owned by a process."""
        stats = self.stats()
        return all(len(stats[component.name].tasks) == component.tasks for component in self._components)

    def run(self) -> None:
        """Starts all processes, and waits until they end or `request_stop` is called; raises as `wait` does."""
        self.start()
        try:
            while not (self.wait(0.2) or self._is_stopping()):
                pass
        finally:
            self.stop()
        self.wait()

    def stop(self, seconds: float | None = None) -> None:
        """Stops all processes cleanly, and kills those still running after `seconds`.

        The default is 20, and more if the `stop_timeout` of a bolt is longer than 5 seconds.
        """
        super().stop(self._stop_seconds if seconds is None else seconds)

    def pids(self) -> dict[str, list[int]]:
        """Component → the ids of its running processes; a chained bolt has the ids of its head."""
        pids: dict[str, list[int]] = {component.name: [] for component in self._components}
        for slot in self._slots:
            if (child := slot.running) is not None:
                for name in slot.past:
                    pids[name].append(child.pid)
        return pids

    def kill(self, component: str, number: Signals = SIGKILL) -> int:
        """Sends a signal to one process of a component, and returns its process id; the process is started again.

        Raises:
            ProcessError: if no process of the component is running.
        """
        for slot in self._slots:
            if component in slot.past and (child := slot.running) is not None:
                child.signal(number)
                return child.pid
        raise ProcessError(component, "no process of it is running; wait for it to be started again")

    def stats(self) -> dict[str, Stats]:
        """Component → the sum of the statistics of its processes, including processes that have ended."""
        return self._sums()

    def _checked(self, workers: Sequence[Sequence[str]]) -> Sequence[Sequence[str]]:
        """The components of each worker; an error if that does not fit the topology."""
        known = {component.name: component for component in self._components}
        if left_out := [component.name for component in self._heads if component.name not in self._members]:
            raise TopologyError(f"processes leaves out {', '.join(left_out)}: name each component")
        for name, count in self._members.items():
            if name not in known:
                raise TopologyError(f"processes names {name!r}, but the topology has {', '.join(sorted(known))}")
            if (head := self._manifest.head(name).name) != name:
                raise TopologyError(f"{name!r} is chained: it runs in the tasks of {head!r}, so name {head!r}")
            if count > known[name].tasks:
                raise TopologyError(
                    f"{name!r} cannot run in {count} processes: it has {known[name].tasks} tasks, and each process "
                    "needs one"
                )
        return workers

    def _slot(self, components: Sequence[str]) -> Slot[Stats]:
        is_new = True
        # Runners on several machines share the tasks of a component: their slots must differ.
        slots = {component: secrets.token_hex(6) for component in components}

        def spawn() -> ChildProcess:
            return ChildProcess((_MODULE, self._reference, *components), self._environment)

        def launch() -> dict[str, Any]:
            nonlocal is_new
            was_new, is_new = is_new, False
            return asdict(Launch(dict(self._kafka), slots, was_new, self._members, self._state_directory))

        chained = [bolt.name for component in components for bolt in self._manifest.chained_to(component)]
        return Slot(components, spawn, launch, {name: Stats(name) for name in (*components, *chained)})

    def _on_exit(self, slot: Slot[Stats], pid: int, code: int, pause: float) -> ProcessError | None:
        # If the component has run before, the cause may be a restart of brokers.
        unusable = code == EXIT_UNUSABLE and slot.failed not in self._reported
        starts = self._failed_starts(slot, code)
        restarts = self._restart and not unusable and code != EXIT_GAVE_UP and starts < MAX_STARTS
        exit_ = Exit(slot.loops, pid, code, slot.error, pause if restarts else None)
        logger.log(logging.INFO if code == EXIT_CLEAN else logging.ERROR, "%s", exit_, extra=EACH)
        if self._on_exited is not None:
            self._on_exited(exit_)
        if restarts:
            return None
        why = slot.error or str(exit_)
        failed = slot.failed if slot.error else slot.name
        return ProcessError(failed, f"{starts} starts in a row failed, the last one: {why}" if starts > 1 else why)

    def _failed_starts(self, slot: Slot[Stats], code: int) -> int:
        """How many starts in a row could not prepare a component, including the process that has just ended."""
        counts = self._failed_starts_of.setdefault(slot, {})
        if code != EXIT_NOT_PREPARED:
            counts.clear()
            return 0
        starts, done_before = counts.get(slot.failed, (0, 0))
        done = slot.past[slot.failed].executed + slot.past[slot.failed].emitted
        counts[slot.failed] = 1 if done > done_before else starts + 1, done
        return counts[slot.failed][0]
