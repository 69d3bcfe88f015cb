"""A run of faults in a topology, the check after it, and its report."""

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from acker_cli.chaos.checks import RunCheck, Verdict
from acker_cli.chaos.faults import FaultKind, Faults, broker_faults, process_faults
from acker_cli.chaos.feeder import fed
from acker_cli.chaos.settling import await_done, await_drained, draining, settle_seconds
from acker_cli.cluster.local import Feed
from acker_cli.errors import ProcessError, SettingsError
from acker_cli.processes.running import LOOK_SECONDS, RunPlan, TopologyProcesses
from acker_cli.settings.sections import Settings
from local_kafka import LocalKafka

ACKER: Final = "acker"
BROKER: Final = "broker"
"""The targets that are not components."""
_READY_SECONDS: Final = 120.0
_STDERR: Final = 2


@dataclass(frozen=True, slots=True)
class ChaosPlan:
    """The plan of a run: its targets (empty for all), its duration in seconds, and the messages that are fed."""

    seed: int
    seconds: float
    interval: float
    targets: Sequence[str] = ()
    feeds: Sequence[Feed] = ()
    rate: float = 100.0
    settle: float | None = None


@dataclass(slots=True)
class Report:
    """A run; as JSON with the members of its verdict in place of it, and `is_ok`."""

    topology: str
    seed: int
    seconds: float  # for which faults happened
    faults: list[dict[str, Any]] = field(default_factory=list)  # `at`, `kind` and `seconds` of each
    settled_after: float | None = None  # seconds from the faults until nothing was open; null if something was
    verdict: Verdict = field(default_factory=Verdict)

    @property
    def is_ok(self) -> bool:
        return not self.verdict.violations

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        run = asdict(self)
        return {"is_ok": self.is_ok, **run.pop("verdict"), **run}

    def lines(self) -> Iterator[str]:
        """As text."""
        kinds = Counter(each["kind"] for each in self.faults)
        yield f"{len(self.faults)} faults: {_counted(dict(sorted(kinds.items())))}"
        for topic, count in self.verdict.sources.items():
            yield f"{topic}: {_counted(count)}"
        yield f"trees: {_counted(self.verdict.trees)}"
        yield f"dead letters: {_counted(self.verdict.dead_letters)}"
        if self.settled_after is not None:
            yield f"nothing open {self.settled_after:g} s after the faults"
        for each in self.verdict.violations:
            yield f"VIOLATION: {each.problem}: {each.count:,}"
            yield from (f"  {example}" for example in each.examples)
        yield f"{'no violation' if self.is_ok else 'violations found'}; --seed {self.seed} draws these faults again"


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items()) or "none"


class ChaosRun:
    """Runs a topology, and faults in it.

    Args:
        plan: the topology and its processes.
        chaos: the faults.
        kafka: of the cluster, whose topics exist.
        settings: of the acker workers and of stores of states.
        broker: the embedded one; None on another cluster.
        console: for progress.
    """

    def __init__(
        self,
        plan: RunPlan,
        chaos: ChaosPlan,
        kafka: Mapping[str, Any],
        settings: Settings,
        broker: LocalKafka | None,
        console: Console,
    ) -> None:
        self._plan, self._chaos, self._kafka, self._console = plan, chaos, dict(kafka), console
        self._topology, self._manifest = plan.topology, plan.topology.manifest
        self._processes = TopologyProcesses(
            plan, kafka, settings.worker.model_dump(), settings.log_level, settings.state.directory
        )
        self._faults = Faults(chaos.seed, [*self._targets(broker)], chaos.interval)
        self._report = Report(self._topology.name, chaos.seed, chaos.seconds)

    def run(self) -> Report:
        """Runs to the end. Raises `ProcessError` if the topology cannot run, and `BrokerError`."""
        chaos, report = self._chaos, self._report
        with ExitStack() as stack:
            check = RunCheck(self._kafka, self._topology)
            stack.enter_context(self._processes)
            self._await_ready(check)
            with fed(self._kafka, chaos.feeds, chaos.rate) if chaos.feeds else nullcontext():
                self._inject(time.monotonic() + chaos.seconds)
            check.end()
            left = self._settle(check)
            report.verdict = check.verdict()
            report.verdict.add(f"not at rest {self._seconds:g} s after the faults", left)
        return report

    @property
    def _seconds(self) -> float:
        return settle_seconds(self._manifest) if self._chaos.settle is None else self._chaos.settle

    def _targets(self, broker: LocalKafka | None) -> Iterator[list[FaultKind]]:
        ackers, components = self._processes.ackers, self._processes.components
        targets: dict[str, Callable[[], list[FaultKind]]] = {
            each.name: lambda name=each.name: process_faults(name, lambda: components.pids()[name])  # type: ignore[misc]
            for each in self._manifest.heads
            if not each.external
        }
        if ackers.count:
            targets[ACKER] = lambda: process_faults(ACKER, ackers.pids)
        if broker is not None:
            targets[BROKER] = lambda: broker_faults(broker)
        for name in self._chaos.targets:
            if name not in targets:
                raise SettingsError(f"--target {name}: there is no such target; there are {', '.join(targets)}")
        return (kinds() for name, kinds in targets.items() if name in (self._chaos.targets or targets))

    def _await_ready(self, check: RunCheck) -> None:
        """Waits until all tasks and ack partitions have an owner, and spouts have committed where they begin."""
        ackers, deadline = self._processes.ackers, time.monotonic() + _READY_SECONDS
        self._console.print(f"starting {self._topology.name} on {self._kafka['bootstrap.servers']}")
        while not (
            self._processes.components.is_ready and len(ackers.pids(owners=True)) == ackers.count and check.begin()
        ):
            if time.monotonic() > deadline:
                raise ProcessError(f"after {_READY_SECONDS:g} s not all tasks have a process: see the log")
            self._wait(LOOK_SECONDS)

    def _inject(self, deadline: float) -> None:
        begin = deadline - self._chaos.seconds
        while (left := deadline - time.monotonic()) > 0:
            fault = self._faults.next()
            self._wait(min(fault.after, left))
            if time.monotonic() >= deadline:
                return
            at, kind = round(time.monotonic() - begin, 1), fault.kind.name
            lasting = f", {fault.seconds:g} s" if fault.seconds else ""
            stats = self._processes.components.stats()
            spouts = [stats[each.name] for each in self._manifest.spouts if each.name in stats]
            figures = f"acked {sum(each.acked for each in spouts):,}, open {sum(each.pending for each in spouts):,}"
            self._console.print(f"{at:6.1f} of {self._chaos.seconds:g} s  {kind}{lasting}; {figures}")
            self._report.faults.append({"at": at, "kind": kind, "seconds": fault.seconds})
            fault.happen(lambda seconds: self._wait(min(seconds, deadline - time.monotonic())))

    def _settle(self, check: RunCheck) -> list[str]:
        """Waits until nothing is open; returns what is open in the end."""
        began = time.monotonic()
        self._console.print(f"waiting until nothing is open, {self._seconds:g} s at most")
        left = await_done(check.not_done, began + self._seconds, self._wait)
        if not left:
            with draining(self._kafka, self._topology.name):
                left = await_drained(self._kafka, self._manifest, began + self._seconds, self._wait)
        if not left:
            self._report.settled_after = round(time.monotonic() - began, 1)
        return left

    def _wait(self, seconds: float) -> None:
        """Waits, and raises a `ProcessError` if the topology cannot run."""
        end = time.monotonic() + seconds
        self._processes.check()
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(left, LOOK_SECONDS))
            self._processes.check()


@contextmanager
def logged_to(path: Path) -> Iterator[Console]:
    """Sends what this process and its children write to standard error to a file; yields a console on the terminal."""
    sys.stderr.flush()
    terminal = os.dup(_STDERR)
    try:
        with path.open("ab") as log, os.fdopen(os.dup(terminal), "w", buffering=1) as stream:
            os.dup2(log.fileno(), _STDERR)
            yield Console(file=stream, markup=False, highlight=False, emoji=False, soft_wrap=True)
    finally:
        sys.stderr.flush()
        os.dup2(terminal, _STDERR)
        os.close(terminal)
