"""Running a topology, or one of its components, until told to stop."""

import logging
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import FrameType

from acker_cli.acker_pool import AckerPool
from acker_cli.acker_process import AckerLaunch
from acker_cli.cluster import Cluster
from acker_cli.errors import SettingsError
from acker_cli.interruption import Interrupted
from acker_cli.settings import Settings
from acker_cli.snapshot import Rate, TopologySnapshot
from acker_cli.topology_processes import LOOK_SECONDS, TopologyProcesses
from acker_cli.view import View
from acker_worker.catalogue import Catalogue
from spout_sdk import ComponentRunner, Stats, Topology
from tuple_tree.manifest import Manifest
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
            raise SettingsError(f"topology {topology.name} has acking off: take --ackers out")
        return cls(topology, reference, component, dict(map(_process_count, processes)), ackers)


def _process_count(given: str) -> tuple[str, int]:
    name, _, count = given.partition("=")
    if not (name and count.isdigit()):
        raise SettingsError(f"--processes takes NAME=N, such as --processes split=2, not {given!r}")
    return name, int(count)


def prepare_cluster(cluster: Cluster, manifest: Manifest, replication_factor: int) -> None:
    """Creates what is missing on an embedded broker; checks what there is on a cluster.

    Raises:
        AckerWorkerError: if the cluster cannot be reached, or topics are not as they have to be.
    """
    catalogue = Catalogue(cluster.kafka)
    if cluster.is_embedded:
        catalogue.create_topics(manifest, replication_factor)
        catalogue.publish(manifest)
        return
    problems = catalogue.problems(topic_specs(manifest))
    if problems:
        raise problems[0]
    if catalogue.manifests().get(manifest.topology) != manifest:
        _log.warning(
            "the cluster has another manifest of %s than your code; publish yours: acker topics create MODULE:TOPOLOGY",
            manifest.topology,
        )


def run_topology(plan: RunPlan, cluster: Cluster, settings: Settings, view: View) -> None:
    """Runs all components, each in processes of its own, until a signal unwinds it.

    Raises:
        SpoutSdkError: if a component cannot be run.
        ProcessError: if an acker worker cannot be run.
    """
    pause = threading.Event()
    ackers = _acker_pool(plan, cluster, settings) if plan.ackers else None
    with TopologyProcesses(plan.reference, plan.topology.manifest, cluster.kafka, plan.processes, ackers) as topology:
        while True:
            topology.check()
            view.show(topology.snapshot())
            pause.wait(LOOK_SECONDS)


def run_component(plan: RunPlan, cluster: Cluster, settings: Settings, view: View) -> None:
    """Runs one component in this process until a signal stops it.

    Raises:
        Interrupted: when it has stopped.
        SpoutSdkError: if it cannot be run.
        ProcessError: if an acker worker cannot be run.
    """
    assert plan.component is not None  # noqa: S101 - for the type checker
    began = time.monotonic()
    rate = Rate()
    spouts = frozenset(spout.name for spout in plan.topology.manifest.spouts) & {plan.component}

    def on_stats(stats: Stats) -> None:
        ackers.check()
        view.show(
            TopologySnapshot(
                seconds=time.monotonic() - began,
                spouts=spouts,
                components={stats.component: stats},
                rate=rate.update(stats.executed),
                acker_pids=tuple(worker.pid for worker in ackers.workers()),
                ackers=ackers.stats() if plan.ackers else None,
            )
        )

    received: list[int] = []

    # A component stops between two tuples, never amid one.
    def on_signal(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        runner.stop()

    ackers = _acker_pool(plan, cluster, settings)
    with ExitStack() as cleaning:
        cleaning.enter_context(ackers)
        runner = ComponentRunner(plan.topology, plan.component, cluster.kafka, on_stats=on_stats)
        for number in (signal.SIGINT, signal.SIGTERM):
            cleaning.callback(signal.signal, number, signal.signal(number, on_signal))
        runner.run()
    if received:
        raise Interrupted(received[0])


def _acker_pool(plan: RunPlan, cluster: Cluster, settings: Settings) -> AckerPool:
    launch = AckerLaunch(plan.topology.name, cluster.kafka, settings.worker.model_dump(), settings.log_level)
    return AckerPool(launch, plan.ackers)
