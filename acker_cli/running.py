"""Running a topology, or one of its components, until told to stop."""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from acker_cli import acker_pool
from acker_cli.acker_pool import AckerPool
from acker_cli.acker_process import AckerLaunch
from acker_cli.cluster import Cluster
from acker_cli.errors import SettingsError
from acker_cli.interruption import Interrupted, stopped_by_signals
from acker_cli.loops import ACKER_LOOP, Health, Loop
from acker_cli.metrics_server import metrics_served
from acker_cli.settings import Settings
from acker_cli.snapshot import Rate, TopologySnapshot
from acker_cli.topology_processes import LOOK_SECONDS, TopologyProcesses
from acker_cli.view import View
from acker_worker.metrics import WorkerCollector
from acker_worker.stats import WorkerStats
from kafka_clients.access import component_role
from kafka_clients.catalogue import Catalogue
from spout_sdk import ComponentRunner, Stats, Topology
from spout_sdk.runtime import child
from spout_sdk.runtime.garbage import collect_rarely
from spout_sdk.statistics.metrics import ComponentCollector
from tuple_tree.manifest import Manifest
from tuple_tree.names import TOPOLOGIES_TOPIC, component_group
from tuple_tree.topics import topic_specs

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What is to be run.

    Attributes:
        topology: as built.
        reference: where it was found.
        component: the only one to run; None for all.
        processes: component → how many processes.
        ackers: how many acker workers.
    """

    topology: Topology
    reference: str
    component: str | None = None
    processes: Mapping[str, int] = field(default_factory=dict)
    ackers: int = 0

    @property
    def needs_ackers(self) -> bool:
        """Whether trees are begun here whose ackers run elsewhere; bolts may well be started before them."""
        spouts = {spout.name for spout in self.topology.manifest.spouts}
        return not self.ackers and (self.component is None or self.component in spouts)

    @classmethod
    def checked(
        cls, topology: Topology, reference: str, component: str | None, processes: Sequence[str], ackers: int
    ) -> "RunPlan":
        """Reads a plan as the command line has it.

        Raises:
            SettingsError: if it does not fit the topology.
            TopologyError: if there is no such component.
        """
        if component is not None:
            topology.factory(component)
            if processes:
                raise SettingsError("--component runs in this process: take --processes out, or run it several times")
        if ackers and not topology.manifest.acking:
            raise SettingsError(
                f"topology {topology.name} promises at_most_once, so it has no ackers: take --ackers out"
            )
        return cls(topology, reference, component, dict(map(_process_count, processes)), ackers)


def _process_count(given: str) -> tuple[str, int]:
    name, _, count = given.partition("=")
    if not (name and count.isdigit()):
        raise SettingsError(f"--processes takes NAME=N, such as --processes split=2, not {given!r}")
    return name, int(count)


def prepare_cluster(
    cluster: Cluster, manifest: Manifest, replication_factor: int, component: str | None = None
) -> None:
    """Creates what is missing on an embedded broker; checks what there is on a cluster.

    Args:
        cluster: the one.
        manifest: of the topology.
        replication_factor: of topics that are created.
        component: what runs here, whose topics are the only ones to check; None for the whole topology.

    Raises:
        AckerWorkerError: if the cluster cannot be reached, or topics are not as they have to be.
    """
    if cluster.is_embedded:
        catalogue = Catalogue(cluster.kafka)
        catalogue.create_topics(manifest, replication_factor)
        catalogue.publish(manifest)
        return
    specs = [spec for spec in topic_specs(manifest) if not spec.optional]
    if component is None:
        catalogue = Catalogue(cluster.kafka)
    else:
        # Its user may know of nothing else.
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
            child.start_early(plan.reference, component.name, plan.processes.get(component.name, 1))


def run_topology(plan: RunPlan, cluster: Cluster, settings: Settings, view: View) -> None:
    """Runs all components, each in processes of its own, until a signal unwinds it.

    Raises:
        SpoutSdkError: if a component cannot be run.
        ProcessError: if an acker worker cannot be run.
        SettingsError: if metrics cannot be served where they are to be.
    """
    pause = threading.Event()
    manifest = plan.topology.manifest
    ackers = _acker_pool(plan, cluster, settings) if plan.ackers else None
    processes = TopologyProcesses(plan.reference, manifest, cluster.kafka, plan.processes, ackers)
    latest = processes.snapshot()
    collectors = _collectors(manifest, lambda: latest, has_ackers=ackers is not None)
    health = Health(processes.heartbeat_ages, lambda: latest.stalls)
    with metrics_served(settings.metrics, collectors, health), processes as topology:
        while True:
            topology.check()
            latest = topology.snapshot()
            view.show(latest)
            pause.wait(LOOK_SECONDS)


def run_component(plan: RunPlan, cluster: Cluster, settings: Settings, view: View) -> None:
    """Runs one component in this process until a signal stops it.

    Raises:
        Interrupted: when it has stopped.
        SpoutSdkError: if it cannot be run.
        ProcessError: if an acker worker cannot be run.
        SettingsError: if metrics cannot be served where they are to be.
    """
    assert plan.component is not None  # noqa: S101 - for the type checker
    began = time.monotonic()
    rate = Rate()
    spouts = frozenset(spout.name for spout in plan.topology.manifest.spouts) & {plan.component}

    loop = Loop(plan.component)
    ackers = _acker_pool(plan, cluster, settings)

    def snapshot(stats: Stats) -> TopologySnapshot:
        return TopologySnapshot(
            seconds=time.monotonic() - began,
            spouts=spouts,
            components={stats.component: stats},
            rate=rate.update(stats.executed),
            acker_pids=tuple(worker.pid for worker in ackers.workers()),
            ackers=ackers.stats() if plan.ackers else None,
        )

    latest = snapshot(Stats(plan.component))

    def on_stats(stats: Stats) -> None:
        nonlocal latest
        loop.turned()
        ackers.check()
        latest = snapshot(stats)
        view.show(latest)

    def heartbeat_ages() -> dict[str, float]:
        return {**loop.heartbeat_ages(), **({ACKER_LOOP: ackers.silence()} if plan.ackers else {})}

    collectors = _collectors(plan.topology.manifest, lambda: latest, has_ackers=bool(plan.ackers))
    with ExitStack() as cleaning:
        health = Health(heartbeat_ages, lambda: latest.stalls)
        cleaning.enter_context(metrics_served(settings.metrics, collectors, health))
        cleaning.enter_context(ackers)
        runner = ComponentRunner(plan.topology, plan.component, cluster.kafka, on_stats=on_stats)
        # A component stops between two tuples, never amid one.
        received = cleaning.enter_context(stopped_by_signals(runner.stop))
        collect_rarely()
        runner.run()
    if received:
        raise Interrupted(received[0])


def _collectors(
    manifest: Manifest, latest: Callable[[], TopologySnapshot], *, has_ackers: bool
) -> list[ComponentCollector | WorkerCollector]:
    """What a topology, or a component of it, shows to Prometheus."""
    components = ComponentCollector(manifest, lambda: latest().components.values())
    if not has_ackers:
        return [components]
    return [components, WorkerCollector(lambda: {manifest.topology: latest().ackers or WorkerStats()})]


def _acker_pool(plan: RunPlan, cluster: Cluster, settings: Settings) -> AckerPool:
    launch = AckerLaunch(plan.topology.name, cluster.kafka, settings.worker.model_dump(), settings.log_level)
    return AckerPool(launch, plan.ackers)
