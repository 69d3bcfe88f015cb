"""Runs a whole topology, each component in processes of its own, and keeps them running."""

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
EXIT_BROKEN: Final = 1  # it ran, and has failed; a restart may help
EXIT_UNUSABLE: Final = 2  # it could not start, and will not until the settings or the topology change
EXIT_GAVE_UP: Final = 3  # it ran, and its component forbids another start
EXIT_NOT_PREPARED: Final = 4  # its component could not be made, prepared or opened
MAX_STARTS: Final = 10
"""If this number of processes fail to prepare their component, without a tuple between them, all processes end."""
ARROW: Final = "arrow"
"""The argument of a process that imports Arrow before it reads its launch."""
_MODULE: Final = "spout_sdk.runtime.process"


@dataclass(frozen=True, slots=True)
class Launch:
    """Parameters of a process beyond topology and component; import path and log level are the supervisor's."""

    kafka: Mapping[str, Any] = field(repr=False)
    slot: str | None = None  # end of a bolt's transactional id, the same for all processes that fill one place
    is_new_slot: bool = False  # whether no process has filled that place before
    state_directory: str | None = None  # of stores of states on disk; in memory without
    path: Sequence[str] = field(default_factory=lambda: [os.path.abspath(entry) for entry in sys.path])
    log_level: int = field(default_factory=lambda: logging.getLogger().getEffectiveLevel())
    reports: int = 1  # file descriptor of the pipe that reports go to


def stop_seconds(topology: Topology) -> float:
    """How long the processes of a topology may take to stop: the longest `stop_timeout`, and time to commit."""
    return supervision.STOP_SECONDS + topology.stop_timeout - STOP_TIMEOUT


def start_early(reference: str, component: str, count: int = 1, *, has_packs: bool = False) -> None:
    """As `supervision.start_early`, for the next runner of a component; those with packs import Arrow at once."""
    supervision.start_early((_MODULE, reference, component), count, (ARROW,) if has_packs else ())


@dataclass(frozen=True, slots=True)
class Exit:
    """A process that ended and was not stopped.

    Attributes:
        component: whose.
        pid: of the process.
        code: exit code; negative for a signal.
        error: why, in one line; empty if it could not say.
        restarts_in: seconds until its successor is started; None if there will be none.
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

    They end with this process, even if it is killed. A process that ends by itself is reported and started again, a
    little later each time, unless `restart` is False, or a component could not start in the first place: then all are
    stopped and `wait` raises. So it does after 10 processes in a row, in about a minute, that could not make, prepare
    or open their component, without a tuple that was executed or emitted between them.

    Args:
        reference: `module:attribute` of a `Topology`, or of a function that returns one; imported by every process.
        kafka: librdkafka properties.
        processes: component → how many processes; one each unless given.
        restart: False to stop everything as soon as one process ends.
        environment: variables to add to the processes' environment.
        state_directory: of stores of states on disk, as of a `ComponentRunner`.
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
        ] = {}  # place → failed starts in a row, and tuples until then
        # External components run elsewhere, in Spark for instance.
        self._components = [component for component in self._manifest.components if not component.external]
        self._heads = [component for component in self._manifest.heads if not component.external]
        self._plan(processes or {})

    def wait(self, seconds: float | None = None) -> bool:
        """Waits until everything has ended; returns False if it still runs when the time is over.

        Raises:
            ProcessError: if a component could not be started, or ended and is not to be restarted.
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
        """Starts everything, and waits for the end or `request_stop`; raises as `wait` does."""
        self.start()
        try:
            while not (self.wait(0.2) or self._is_stopping()):
                pass
        finally:
            self.stop()
        self.wait()

    def stop(self, seconds: float | None = None) -> None:
        """Stops all processes cleanly, and kills those still running after `seconds`.

        These are 20 unless given, and longer if a bolt has a longer `stop_timeout` than 5.
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
        """Sends a signal to one running process that runs a component, and returns its id; it is started again.

        Raises:
            ProcessError: if none is running.
        """
        for slot in self._slots:
            if component in slot.past and (child := slot.running) is not None:
                child.signal(number)
                return child.pid
        raise ProcessError(component, "no process of it is running; wait for it to be started again")

    def stats(self) -> dict[str, Stats]:
        """Component → the sum over its processes, the ended ones included."""
        return self._sums()

    def _plan(self, processes: Mapping[str, int]) -> None:
        # Two runners share the tasks of a component, on two machines for instance: their slots must not be the same.
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
        # A component that has run before may have met brokers that restart.
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
        """How many processes in a row could not prepare their component, the one that has ended included."""
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
