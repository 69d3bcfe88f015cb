"""Running a topology, or one of its components, until a signal comes."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from prometheus_client.registry import Collector

from acker_cli.errors import ProcessError, SettingsError
from acker_cli.interruption import Interrupted, stopped_by_signals
from acker_cli.processes.acker_pool import ACKER_LOOP, AckerPool
from acker_cli.processes.control_watch import ControlWatch
from acker_cli.processes.metrics_server import Health, Loop, metrics_served
from acker_cli.processes.own_figures import OwnFigures, component_findings, worker_findings
from acker_cli.settings.sections import Settings
from acker_cli.views.live import View
from acker_worker.metrics import WorkerCollector
from inspection.health.findings import Finding
from inspection.topology_status import ClusterStatus
from inspection.view import Snapshot
from kafka_clients.access import component_role
from kafka_clients.catalogue import Catalogue, KafkaSettings
from kafka_clients.errors import BrokerError
from kafka_clients.repeated_lines import get_logger
from spout_sdk import Topology
from spout_sdk.runtime import ComponentRunner, TopologyRunner
from spout_sdk.runtime.process import collect_rarely
from spout_sdk.statistics import Stats
from spout_sdk.statistics.metrics import ComponentCollector
from tuple_tree.manifest import Manifest
from tuple_tree.names import TOPOLOGIES_TOPIC, acker_group, component_group
from tuple_tree.program import differences
from tuple_tree.topics import topic_specs

logger = get_logger(__name__)

LOOK_SECONDS: Final = 0.25
"""How often `TopologyProcesses.check` is to be called."""
_ACKERS_JOIN_SECONDS: Final = 2.0
"""Seconds until acker workers that start with the components have joined their group."""


@dataclass(frozen=True, slots=True)
class RunPlan:
    """A topology, or one component of it, with its worker processes as for `TopologyRunner`, and acker workers."""

    topology: Topology
    reference: str
    component: str | None = None
    processes: int | Sequence[Sequence[str]] | None = None
    ackers: int = 0

    @property
    def needs_ackers(self) -> bool:
        """Whether it begins trees whose ackers run elsewhere."""
        spouts = {spout.name for spout in self.topology.manifest.spouts}
        return not self.ackers and (self.component is None or self.component in spouts)

    @property
    def guarantees(self) -> dict[str, str]:
        """In words, what the state of each bolt that runs guarantees."""
        found = self.topology.state_guarantees.items()
        return {bolt: words for bolt, words in found if self.component in (None, bolt)}

    @classmethod
    def checked(
        cls,
        topology: Topology,
        reference: str,
        component: str | None,
        processes: int | Sequence[Sequence[str]] | None,
        ackers: int,
    ) -> "RunPlan":
        """The plan of a command line; an error if it does not fit the topology."""
        if component is not None:
            topology.factory(component)
            if (head := topology.manifest.head(component).name) != component:
                raise SettingsError(
                    f"--component {component} is chained, and runs in the tasks of {head}: give --component {head}"
                )
            if processes is not None:
                raise SettingsError("--component runs in this process: remove --processes, or run it several times")
        if ackers and not topology.manifest.acking:
            raise SettingsError(
                f"topology {topology.name} has the guarantee at_most_once, so it has no ackers: remove --ackers"
            )
        return cls(topology, reference, component, processes, ackers)


def check_cluster(
    kafka: KafkaSettings, manifest: Manifest, component: str | None = None, *, force: bool = False
) -> None:
    """Checks the topics of a topology, or those of one component, and its code against the published manifest.

    With `force` code runs that has other streams or groupings.
    """
    specs = [spec for spec in topic_specs(manifest) if not spec.optional]
    if component is None:
        catalogue = Catalogue(kafka, group=acker_group(manifest.topology))
    else:
        # Its user may have access to nothing else.
        role = component_role(manifest, component)
        catalogue = Catalogue(kafka, group=component_group(manifest.topology, component))
        catalogue.check_access(role)
        specs = [spec for spec in specs if spec.name in role.needed_topics and spec.name != TOPOLOGIES_TOPIC]
    problems = catalogue.problems(specs)
    if problems:
        raise problems[0]
    published = catalogue.manifests().get(manifest.topology)
    others = differences(manifest, published, component) if isinstance(published, Manifest) else []
    if others and not force:
        raise SettingsError(
            f"the published manifest of {manifest.topology} is not that of your code: {'; '.join(others)}. If your "
            "code is newer, publish it: acker topics create MODULE:TOPOLOGY; if it is another program, give it another "
            "name. --force runs it all the same"
        )
    if published != manifest:
        logger.warning(
            "the cluster has another manifest of %s than your code; publish yours: acker topics create MODULE:TOPOLOGY",
            manifest.topology,
        )


class TopologyProcesses:
    """Runs all components of a plan in worker processes, and acker workers beside them.

    `kafka` are librdkafka properties, `worker` fields of `WorkerSettings`, `log_level` the least that ackers log,
    `state_directory` that of stores of states on disk.
    """

    def __init__(
        self,
        plan: RunPlan,
        kafka: KafkaSettings,
        worker: Mapping[str, Any] | None = None,
        log_level: str = "warning",
        state_directory: Path | None = None,
    ) -> None:
        self.ackers = AckerPool(plan.topology.name, kafka, plan.ackers, worker, log_level)
        self.components = TopologyRunner(plan.reference, kafka, plan.processes, state_directory=state_directory)
        self._figures = OwnFigures(plan.topology.manifest, self.ackers)

    def __enter__(self) -> Self:
        self.ackers.start()
        self.components.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stops the components first, so that the ackers read their last acks."""
        try:
            self.components.stop()
        finally:
            self.ackers.stop()

    def check(self) -> None:
        """Raises a `ProcessError` if an acker worker cannot run, or all components have ended."""
        self.ackers.check()
        if self.components.wait(0):
            raise ProcessError("all components have ended by themselves: see the log above")

    def figures(self) -> Iterator[tuple[Snapshot, list[Finding]]]:
        """Yields the figures and findings after each check, again and again."""
        while True:
            self.check()
            yield self._figures.read(self.components.stats())
            time.sleep(LOOK_SECONDS)


def run_topology(
    plan: RunPlan,
    kafka: KafkaSettings,
    settings: Settings,
    view: View,
    control: ControlWatch,
    has_changed: Callable[[], bool] = lambda: False,
) -> None:
    """Runs all components in worker processes until the topology is stopped or its code has changed, or to a signal."""
    worker, stores = settings.worker.model_dump(), settings.state.directory
    processes = TopologyProcesses(plan, kafka, worker, settings.log_level, stores)
    components = processes.components
    with _metrics_served(plan, settings, components.stats, components.heartbeat_ages, processes.ackers), processes:
        for figures in processes.figures():
            view.show(*figures)
            if control.is_stopped or has_changed():
                break


def run_component(plan: RunPlan, kafka: KafkaSettings, settings: Settings, view: View, control: ControlWatch) -> None:
    """Runs one component with its chained bolts in this process until the topology is stopped.

    A signal ends it as well; then it raises `Interrupted`.
    """
    assert plan.component is not None  # noqa: S101 - for the type checker
    manifest = plan.topology.manifest
    loop = Loop(plan.component)
    ackers = AckerPool(manifest.topology, kafka, plan.ackers, settings.worker.model_dump(), settings.log_level)
    figures = OwnFigures(manifest, ackers)
    names = (plan.component, *(bolt.name for bolt in manifest.chained_to(plan.component)))
    latest = {name: Stats(name) for name in names}

    def on_stats(stats: Stats) -> None:
        nonlocal latest
        loop.turned()
        ackers.check()
        latest = {**latest, stats.component: stats}
        view.show(*figures.read(latest))

    with _metrics_served(plan, settings, lambda: latest, loop.heartbeat_ages, ackers), ackers:
        runner = ComponentRunner(
            *(plan.topology, plan.component, kafka),
            on_stats=on_stats,
            slot=settings.instance_name,
            state_directory=settings.state.directory,
        )
        # A component stops between two tuples, never during one.
        control.when_stopped(runner.stop)
        with stopped_by_signals(runner.stop) as received:
            collect_rarely()
            runner.run()
    if received:
        raise Interrupted(received[0])


def _metrics_served(
    plan: RunPlan,
    settings: Settings,
    stats: Callable[[], Mapping[str, Stats]],
    heartbeat_ages: Callable[[], Mapping[str, float]],
    ackers: AckerPool,
) -> AbstractContextManager[None]:
    manifest = plan.topology.manifest
    collectors: list[Collector] = [ComponentCollector(manifest, lambda: stats().values())]
    if plan.ackers:
        collectors.append(WorkerCollector(lambda: {manifest.topology: ackers.stats()}))

    def findings() -> list[Finding]:
        workers = {ACKER_LOOP: (manifest.topology, ackers.stats())}
        return [*component_findings(manifest, stats().values()), *worker_findings(workers)]

    health = Health(lambda: {**heartbeat_ages(), **ackers.heartbeat_ages()}, findings)
    return metrics_served(settings.metrics, collectors, health)


@contextmanager
def warned_without_ackers(
    kafka: KafkaSettings, manifest: Manifest, after_s: float = _ACKERS_JOIN_SECONDS
) -> Iterator[None]:
    """Warns if no acker worker has joined the group of a topology with acking after some seconds.

    The group is described once, because a client that does so again and again aborts its process where a broker goes
    away meanwhile (`docs/adr/0018`). A user who may not describe the group is not warned.
    """
    group = acker_group(manifest.topology)
    exception = ", except trees that stay in the chain of their spout" if manifest.has_chained_spouts else ""

    def look() -> None:
        try:
            members = ClusterStatus(kafka).members([group])[group]
        except BrokerError as error:
            logger.warning("it is not known whether an acker worker is running: %s", error)
            return
        if members == 0 and not timer.finished.is_set():  # which it is if it was cancelled meanwhile
            logger.warning(
                "no acker worker is running for topology %s (consumer group %s has no members): its trees are neither "
                "acked nor failed until one runs%s. Start one: acker worker --topology %s, or add --ackers 1 to "
                "acker run",
                *(manifest.topology, group, exception, manifest.topology),
            )

    timer = threading.Timer(after_s, look)
    timer.name, timer.daemon = "acker-watch", True
    if manifest.acking:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()
