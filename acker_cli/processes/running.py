"""Running a topology, or one of its components, until a signal comes."""

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Final

from prometheus_client.registry import Collector

from acker_cli.cluster.connection import Cluster
from acker_cli.errors import SettingsError
from acker_cli.interruption import Interrupted, stopped_by_signals
from acker_cli.processes import acker_pool
from acker_cli.processes.acker_pool import AckerPool
from acker_cli.processes.acker_process import AckerLaunch
from acker_cli.processes.metrics_server import Health, Loop, metrics_served
from acker_cli.processes.topology_processes import LOOK_SECONDS, Snapshots, TopologyProcesses
from acker_cli.settings.sections import Settings
from acker_cli.views.live import View
from acker_cli.views.snapshot import TopologySnapshot
from acker_worker.metrics import WorkerCollector
from acker_worker.stats import WorkerStats
from inspection.topology_status import ClusterStatus
from kafka_clients.access import component_role
from kafka_clients.catalogue import Catalogue, KafkaSettings
from kafka_clients.errors import ClusterError
from spout_sdk import ComponentRunner, Stats, Topology
from spout_sdk.runtime.launch import start_early as start_component_early
from spout_sdk.runtime.process import collect_rarely
from spout_sdk.statistics.metrics import ComponentCollector
from tuple_tree.manifest import Manifest, topic_specs
from tuple_tree.names import TOPOLOGIES_TOPIC, acker_group, component_group

_log = logging.getLogger(__name__)

_ACKERS_JOIN_S: Final = 2.0
"""Seconds until acker workers that start with the components have joined their group."""


@dataclass(frozen=True, slots=True)
class RunPlan:
    """A topology, or one component of it, with the number of processes of each component and of acker workers."""

    topology: Topology
    reference: str
    component: str | None = None
    processes: Mapping[str, int] = field(default_factory=dict)
    ackers: int = 0

    @property
    def needs_ackers(self) -> bool:
        """Whether it begins trees whose ackers run elsewhere."""
        spouts = {spout.name for spout in self.topology.manifest.spouts}
        return not self.ackers and (self.component is None or self.component in spouts)

    @classmethod
    def checked(
        cls, topology: Topology, reference: str, component: str | None, processes: Sequence[str], ackers: int
    ) -> "RunPlan":
        """The plan of a command line; an error if it does not fit the topology."""
        if component is not None:
            topology.factory(component)
            if processes:
                raise SettingsError("--component runs in this process: take --processes out, or run it several times")
        if ackers and not topology.manifest.acking:
            raise SettingsError(
                f"topology {topology.name} promises at_most_once, so it has no ackers: take --ackers out"
            )
        tasks = {each.name: each.tasks for each in topology.manifest.components if not each.external}
        counts = dict(map(_process_count, processes))
        for name, count in counts.items():
            if name not in tasks:
                raise SettingsError(
                    f"--processes names {name!r}, which is no component: {topology.name} has {', '.join(tasks)}"
                )
            if not 1 <= count <= tasks[name]:
                raise SettingsError(
                    f"--processes {name}={count} needs a task for each process, and {name} has {tasks[name]} tasks: "
                    f"give 1 to {tasks[name]} processes"
                )
        return cls(topology, reference, component, counts, ackers)


def _process_count(given: str) -> tuple[str, int]:
    name, _, count = given.partition("=")
    if not (name and count.isdigit()):
        raise SettingsError(f"--processes takes NAME=N, such as --processes split=2, not {given!r}")
    return name, int(count)


def prepare_cluster(
    cluster: Cluster, manifest: Manifest, replication_factor: int, component: str | None = None
) -> None:
    """Creates what is missing on an embedded broker; checks the topics on a cluster, those of `component` if given."""
    if cluster.is_embedded:
        catalogue = Catalogue(cluster.kafka)
        catalogue.create_topics(manifest, replication_factor)
        catalogue.publish(manifest)
        return
    specs = [spec for spec in topic_specs(manifest) if not spec.optional]
    if component is None:
        catalogue = Catalogue(cluster.kafka)
    else:
        # Its user may have access to nothing else.
        role = component_role(manifest, component)
        catalogue = Catalogue(cluster.kafka, group=component_group(manifest.topology, component))
        catalogue.check_access(role)
        specs = [spec for spec in specs if spec.name in role.needed_topics and spec.name != TOPOLOGIES_TOPIC]
    problems = catalogue.problems(specs)
    if problems:
        raise problems[0]
    if catalogue.manifests().get(manifest.topology) != manifest:
        _log.warning(
            "the cluster has another manifest of %s than your code; publish yours: acker topics create MODULE:TOPOLOGY",
            manifest.topology,
        )


def start_early(plan: RunPlan) -> None:
    """Starts the processes of `run_topology`, which import what they need while the broker starts."""
    acker_pool.start_early(plan.ackers)
    for component in plan.topology.manifest.components:
        if not component.external:
            start_component_early(plan.reference, component.name, plan.processes.get(component.name, 1))


def run_topology(plan: RunPlan, cluster: Cluster, settings: Settings, view: View) -> None:
    """Runs all components, each in processes of its own, until a signal unwinds it."""
    pause = threading.Event()
    ackers = _acker_pool(plan, cluster, settings)
    topology = TopologyProcesses(plan.reference, plan.topology.manifest, cluster.kafka, plan.processes, ackers)
    latest = topology.snapshot()
    with _metrics_served(plan, settings, topology.heartbeat_ages, lambda: latest), topology:
        while True:
            topology.check()
            latest = topology.snapshot()
            view.show(latest)
            pause.wait(LOOK_SECONDS)


def run_component(plan: RunPlan, cluster: Cluster, settings: Settings, view: View) -> None:
    """Runs one component in this process until a signal stops it, and raises `Interrupted` then."""
    assert plan.component is not None  # noqa: S101 - for the type checker
    loop = Loop(plan.component)
    ackers = _acker_pool(plan, cluster, settings)
    snapshots = Snapshots({spout.name for spout in plan.topology.manifest.spouts} & {plan.component}, ackers)
    latest = snapshots.of({plan.component: Stats(plan.component)})

    def on_stats(stats: Stats) -> None:
        nonlocal latest
        loop.turned()
        ackers.check()
        latest = snapshots.of({stats.component: stats})
        view.show(latest)

    def heartbeat_ages() -> dict[str, float]:
        return {**loop.heartbeat_ages(), **ackers.heartbeat_ages()}

    with _metrics_served(plan, settings, heartbeat_ages, lambda: latest), ackers:
        runner = ComponentRunner(plan.topology, plan.component, cluster.kafka, on_stats=on_stats)
        # A component stops between two tuples, never amid one.
        with stopped_by_signals(runner.stop) as received:
            collect_rarely()
            runner.run()
    if received:
        raise Interrupted(received[0])


def _metrics_served(
    plan: RunPlan,
    settings: Settings,
    heartbeat_ages: Callable[[], Mapping[str, float]],
    latest: Callable[[], TopologySnapshot],
) -> AbstractContextManager[None]:
    manifest = plan.topology.manifest
    collectors: list[Collector] = [ComponentCollector(manifest, lambda: latest().components.values())]
    if plan.ackers:
        collectors.append(WorkerCollector(lambda: {manifest.topology: latest().ackers or WorkerStats()}))
    return metrics_served(settings.metrics, collectors, Health(heartbeat_ages, lambda: latest().stalls))


def _acker_pool(plan: RunPlan, cluster: Cluster, settings: Settings) -> AckerPool:
    launch = AckerLaunch(plan.topology.name, cluster.kafka, settings.worker.model_dump(), settings.log_level)
    return AckerPool(launch, plan.ackers)


@contextmanager
def warned_without_ackers(kafka: KafkaSettings, manifest: Manifest, after_s: float = _ACKERS_JOIN_S) -> Iterator[None]:
    """Warns if no acker worker has joined the group of a topology with acking so many seconds later.

    The group is described once, because a client that does so again and again aborts its process where a broker goes
    away meanwhile (`docs/adr/0018`). A user who may not describe the group is not warned.
    """
    over = threading.Event()
    group = acker_group(manifest.topology)

    def look() -> None:
        if over.wait(after_s):
            return
        try:
            members = ClusterStatus(kafka).members([group])[group]
        except ClusterError as error:
            _log.warning("whether an acker worker is at work is not known: %s", error)
            return
        if members == 0 and not over.is_set():
            _log.warning(
                "no acker worker is at work for topology %s (consumer group %s has no members): its trees are neither "
                "acked nor failed until there is one. Start one: acker worker --topology %s, or add --ackers 1 to "
                "acker run",
                *(manifest.topology, group, manifest.topology),
            )

    if manifest.acking:
        threading.Thread(target=look, name="acker-watch", daemon=True).start()
    try:
        yield
    finally:
        over.set()
