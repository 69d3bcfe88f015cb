"""Runs a whole topology, each component in its own processes, and restarts processes that end."""

import logging
import os
import secrets
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from signal import SIGKILL, Signals
from typing import Any, Final

from kafka_clients import supervision
from kafka_clients.repeated_lines import get_logger
from kafka_clients.supervision import ChildProcess, Slot, Supervisor, describe_exit
from spout_sdk.api.topology import STOP_TIMEOUT, Topology, load_topology
from spout_sdk.errors import ProcessError, TopologyError
from spout_sdk.kafka.kafka_settings import KafkaSettings, checked
from spout_sdk.statistics.stats import Stats

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
    """Parameters of a process, besides topology and component; import path and log level are the supervisor's."""

    kafka: Mapping[str, Any] = field(repr=False)
    slot: str | None = None  # see `ComponentRunner`; a process and its successors have the same
    is_new_slot: bool = False  # whether no process has had that slot before
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
        component: the component that the process ran.
        pid: the process id.
        code: the exit code; negative for a signal.
        error: the reason, in one line; empty if the process reported none.
        restarts_in: seconds until the process is started again; None if it is not.
    """

    component: str
    pid: int
    code: int
    error: str
    restarts_in: float | None

    def __str__(self) -> str:
        after = "" if self.restarts_in is None else f"; restarting in {self.restarts_in:.1f} s"
        return f"process {self.pid} of {self.component} {describe_exit(self.code, self.error)}{after}"


class TopologyRunner(Supervisor[Stats]):
    """Runs each component of a topology in one or more processes.

    The processes end with this process, even if it is killed. A process that ends by itself is reported and started
    again, after a pause that grows each time. In three cases all processes are stopped instead, and `wait` raises: if
    `restart` is False; if a component could not start in the first place, or must not be restarted; and if 10 starts in
    a row, in about a minute, could not create, prepare or open the component, without a tuple executed or emitted in
    between.

    Args:
        reference: `module:attribute` of a `Topology`, or of a function that returns one; imported by every process.
        kafka: librdkafka properties.
        processes: component → its number of processes; 1 by default.
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
        processes: Mapping[str, int] | None = None,
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
        self._failed_starts_of: dict[
            Slot[Stats], tuple[int, int]
        ] = {}  # slot → failed starts in a row, and tuples until then
        # External components run elsewhere, for instance in Spark.
        self._components = [component for component in self._manifest.components if not component.external]
        self._heads = [component for component in self._manifest.heads if not component.external]
        self._plan(processes or {})

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

    def _plan(self, processes: Mapping[str, int]) -> None:
        # Several runners may share the tasks of a component, for instance on two machines: their slots must differ.
        run = secrets.token_hex(4)
        known = {component.name for component in self._components}
        for name in processes:
            if name not in known:
                raise TopologyError(f"processes names {name!r}, but the topology has {', '.join(sorted(known))}")
            if (head := self._manifest.head(name).name) != name:
                raise TopologyError(f"{name!r} is chained: it runs in the processes of {head!r}, so name {head!r}")
        for component in self._heads:
            count = processes.get(component.name, 1)
            if not 1 <= count <= component.tasks:
                raise TopologyError(
                    f"{component.name!r} cannot run in {count} processes: it has {component.tasks} tasks, "
                    "and each process needs one"
                )
            for number in range(count):
                self._slots.append(self._slot(component.name, f"{run}-{number}"))

    def _slot(self, component: str, name: str) -> Slot[Stats]:
        is_new = True

        def spawn() -> ChildProcess:
            return ChildProcess((_MODULE, self._reference, component), self._environment)

        def launch() -> dict[str, Any]:
            nonlocal is_new
            was_new, is_new = is_new, False
            return asdict(Launch(dict(self._kafka), name, was_new, self._state_directory))

        names = (component, *(bolt.name for bolt in self._manifest.chained_to(component)))
        return Slot(component, spawn, launch, {name: Stats(name) for name in names})

    def _on_exit(self, slot: Slot[Stats], pid: int, code: int, pause: float) -> ProcessError | None:
        # If the component has run before, the cause may be a restart of brokers.
        unusable = code == EXIT_UNUSABLE and slot.name not in self._reported
        starts = self._failed_starts(slot, code)
        restarts = self._restart and not unusable and code != EXIT_GAVE_UP and starts < MAX_STARTS
        exit_ = Exit(slot.name, pid, code, slot.error, pause if restarts else None)
        logger.log(logging.INFO if code == EXIT_CLEAN else logging.ERROR, "%s", exit_)
        if self._on_exited is not None:
            self._on_exited(exit_)
        if restarts:
            return None
        why = slot.error or str(exit_)
        return ProcessError(slot.name, f"{starts} starts in a row failed, the last one: {why}" if starts > 1 else why)

    def _failed_starts(self, slot: Slot[Stats], code: int) -> int:
        """How many starts in a row could not prepare the component, including the process that has just ended."""
        done = sum(past.executed + past.emitted for past in slot.past.values())
        starts, done_before = self._failed_starts_of.get(slot, (0, 0))
        if code != EXIT_NOT_PREPARED:
            starts = 0
        elif done > done_before:
            starts = 1
        else:
            starts += 1
        self._failed_starts_of[slot] = starts, done
        return starts
