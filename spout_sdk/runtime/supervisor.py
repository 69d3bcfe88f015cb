"""Runs a whole topology, each component in processes of its own, and keeps them running."""

import logging
import secrets
import signal
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from kafka_clients.supervision import Backoff, describe_exit
from spout_sdk.errors import ProcessError, TopologyError
from spout_sdk.kafka.kafka_settings import KafkaSettings, checked
from spout_sdk.runtime.child import Child
from spout_sdk.runtime.launch import EXIT_CLEAN, EXIT_GAVE_UP, EXIT_UNUSABLE
from spout_sdk.statistics.stats import Stats
from spout_sdk.topologies.topology import load_topology
from tuple_tree.manifest import SpoutManifest

logger = logging.getLogger("spout_sdk.runtime.supervisor")

STOP_SECONDS: Final = 20.0


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


class _Slot:
    """A place for one process of a component, whichever fills it."""

    def __init__(self, component: str, name: str, tasks: tuple[int, ...] | None) -> None:
        self.component = component
        self.name = name
        self.tasks = tasks
        self.child: Child | None = None
        self.stats: Stats | None = None
        self.past = Stats(component)
        self.heartbeat_at = time.monotonic()
        self.error = ""


class TopologyRunner:
    """Runs each component of a topology in one or more processes.

    They end with this process, even if it is killed. A process that ends by itself is reported and started again, a
    little later each time, unless `restart` is False, or a component could not start in the first place: then all are
    stopped and `wait` raises.

    Args:
        reference: `module:attribute` of a `Topology`, or of a function that returns one; imported by every process.
        kafka: librdkafka properties.
        processes: component → how many processes; one each unless given.
        restart: False to stop everything as soon as one process ends.
        environment: variables to add to the processes' environment.
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
        on_exit: Callable[[Exit], None] | None = None,
    ) -> None:
        self._reference = reference
        self._kafka = checked(kafka)
        self._restart = restart
        self._environment = dict(environment or {})
        self._on_exit = on_exit
        self._manifest = load_topology(reference).manifest
        # What is external runs elsewhere, in Spark for instance.
        self._components = [component for component in self._manifest.components if not component.external]
        self._slots: list[_Slot] = []
        self._threads: list[threading.Thread] = []
        self._changed = threading.Condition()
        self._stopping = False
        self._failure: ProcessError | None = None
        self._started: set[str] = set()
        self._plan(processes or {})

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Starts all processes."""
        for number, slot in enumerate(self._slots):
            thread = threading.Thread(
                target=self._supervise_guarded, args=(slot,), name=f"supervise-{slot.component}-{number}", daemon=True
            )
            self._threads.append(thread)
            thread.start()

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

    def stop(self, seconds: float = STOP_SECONDS) -> None:
        """Stops all processes cleanly, and kills what has not ended after so many seconds."""
        self.request_stop()
        with self._changed:
            self._changed.notify_all()
        deadline = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        for slot in self._slots:
            if slot.child is not None and slot.child.is_running:
                logger.warning("process %d of %s did not stop in time and is killed", slot.child.pid, slot.component)
                slot.child.signal(signal.SIGKILL)
        for thread in self._threads:
            thread.join()

    def request_stop(self) -> None:
        """Asks all processes to stop, without waiting; safe in a signal handler."""
        self._stopping = True
        for slot in self._slots:
            if slot.child is not None:
                slot.child.signal(signal.SIGTERM)

    def pids(self) -> dict[str, list[int]]:
        """Component → the ids of its running processes."""
        running: dict[str, list[int]] = {component.name: [] for component in self._components}
        for slot in self._slots:
            child = slot.child
            if child is not None and child.is_running:
                running[slot.component].append(child.pid)
        return running

    def kill(self, component: str, number: signal.Signals = signal.SIGKILL) -> int:
        """Sends a signal to one running process of a component, and returns its id; it is started again.

        Raises:
            ProcessError: if none is running.
        """
        for slot in self._slots:
            child = slot.child
            if slot.component == component and child is not None and child.is_running:
                child.signal(number)
                return child.pid
        raise ProcessError(component, "no process of it is running; wait for it to be started again")

    def stats(self) -> dict[str, Stats]:
        """Component → the sum over its processes, the ended ones included."""
        total = {component.name: Stats(component.name) for component in self._components}
        # What a process did must not be seen twice, or not at all, while it becomes the past: counts never go back.
        with self._changed:
            for slot in self._slots:
                merged = total[slot.component].merge(slot.past)
                total[slot.component] = merged if slot.stats is None else merged.merge(slot.stats)
        return total

    def heartbeat_ages(self) -> dict[str, float]:
        """Component → seconds since the latest heartbeat of its process that has the oldest one.

        A process sends one about twice a second, from its loop: not while its component blocks it, and not if it ends
        again and again before it has started.
        """
        now = time.monotonic()
        longest = dict.fromkeys((component.name for component in self._components), 0.0)
        for slot in self._slots:
            longest[slot.component] = max(longest[slot.component], now - slot.heartbeat_at)
        return longest

    def _plan(self, processes: Mapping[str, int]) -> None:
        # Two runners share the tasks of a component, on two machines for instance: their slots must not be the same.
        run = secrets.token_hex(4)
        known = {component.name for component in self._components}
        for name in processes:
            if name not in known:
                raise TopologyError(f"processes names {name!r}, but the topology has {', '.join(sorted(known))}")
        for component in self._components:
            count = processes.get(component.name, 1)
            if not 1 <= count <= component.tasks:
                raise TopologyError(
                    f"{component.name!r} cannot run in {count} processes: it has {component.tasks} tasks, "
                    "and each process needs one"
                )
            for number in range(count):
                fixed = isinstance(component, SpoutManifest) and not self._manifest.acking
                tasks = tuple(range(number, component.tasks, count)) if fixed else None
                self._slots.append(_Slot(component.name, f"{run}-{number}", tasks))

    def _supervise_guarded(self, slot: _Slot) -> None:
        """An unexpected exception of the thread stops all processes and is raised by `wait`; it is no clean end."""
        try:
            self._supervise(slot)
        except Exception as error:
            logger.exception("the supervisor of %s crashed", slot.component)
            self._give_up(ProcessError(slot.component, f"its supervisor raised {type(error).__name__}: {error}"))

    def _supervise(self, slot: _Slot) -> None:
        backoff = Backoff()
        while not self._is_stopping():
            began = time.monotonic()
            child = slot.child = Child(
                self._reference,
                slot.component,
                self._kafka,
                slot.tasks,
                slot.name,
                self._environment,
                logging.getLogger().getEffectiveLevel(),
            )
            if self._is_stopping():
                child.signal(signal.SIGTERM)
            self._follow(slot, child)
            code = child.wait()
            with self._changed:
                if slot.stats is not None:
                    slot.past, slot.stats = slot.past.merge(slot.stats.retired()), None
                self._changed.notify_all()
            if self._is_stopping():
                return
            pause = backoff.after(time.monotonic() - began)
            # What has run before may have met brokers that are on their way back.
            unusable = code == EXIT_UNUSABLE and slot.component not in self._started
            hopeless = unusable or code == EXIT_GAVE_UP
            restarts = self._restart and not hopeless
            exit_ = Exit(slot.component, child.pid, code, slot.error, pause if restarts else None)
            if code == EXIT_CLEAN:
                logger.info("%s", exit_)
            else:
                logger.error("%s", exit_)
            if self._on_exit is not None:
                self._on_exit(exit_)
            if not restarts:
                self._give_up(ProcessError(slot.component, slot.error or str(exit_)))
                return
            slot.error = ""
            with self._changed:
                self._changed.wait_for(self._is_stopping, pause)

    def _is_stopping(self) -> bool:
        return self._stopping

    def _follow(self, slot: _Slot, child: Child) -> None:
        for report in child.reports():
            if report.stats is None:
                slot.error = report.error
                continue
            with self._changed:
                slot.stats = report.stats
                slot.heartbeat_at = time.monotonic()
                self._started.add(slot.component)
                self._changed.notify_all()

    def _give_up(self, failure: ProcessError) -> None:
        self.request_stop()
        with self._changed:
            if self._failure is None:
                self._failure = failure
            self._changed.notify_all()
