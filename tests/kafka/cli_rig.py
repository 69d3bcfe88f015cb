"""Commands called in this process, and topologies whose components and acker worker run in threads."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from acker_worker.catalogue import Catalogue
from acker_worker.worker import AckerWorker, WorkerSettings
from spout_sdk import ComponentRunner, Stats, Topology
from tests.kafka.sdk_rig import Threaded
from tests.unit.cli.running import Run
from tests.unit.cli.running import call_acker as call_acker
from tuple_tree.access import ACKER

ROOT: Final = Path(__file__).parents[2]
NO_BROKER: Final = "127.0.0.1:1"


def parsed(run: Run) -> Any:
    """The JSON that a successful command printed."""
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def set_config(kafka: Mapping[str, Any], topic: str, key: str, value: str) -> None:
    """Changes one setting of a topic."""
    entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
    admin = AdminClient(dict(kafka))
    for answer in admin.incremental_alter_configs(
        [ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])]
    ).values():
        answer.result()


class InThreads:
    """A topology with an acker worker, all in threads of the test.

    Attributes:
        stats: component → what it reported last.
    """

    def __init__(self, topology: Topology, users: Mapping[str, Mapping[str, Any]]) -> None:
        # No member may lose its place in its group because the machine is busy.
        patient = {"log_level": 2, "session.timeout.ms": 45_000}
        self.stats = {name: Stats(name) for name in users if name != ACKER}
        services: list[ComponentRunner | AckerWorker] = [
            ComponentRunner(topology, name, {**users[name], **patient}, on_stats=self._keep) for name in self.stats
        ]
        if ACKER in users:
            quick = WorkerSettings(commit_interval_s=0.2, stats_interval_s=0.05)
            services.append(AckerWorker(topology.name, {**users[ACKER], **patient}, quick))
        self._threads = [Threaded(service) for service in services]

    def stop(self) -> None:
        """Stops all; raises what one of them raised."""
        for thread in self._threads:
            thread.stop()
        for thread in self._threads:
            thread.join()

    def _keep(self, stats: Stats) -> None:
        self.stats[stats.component] = stats


@contextmanager
def in_threads(
    topology: Topology,
    kafka: Mapping[str, Any],
    components: tuple[str, ...] | None = None,
    *,
    acker: bool = True,
    users: Mapping[str, Mapping[str, Any]] | None = None,
) -> Iterator[InThreads]:
    """Publishes a topology whose topics exist, and runs it; withdraws it at the end.

    Args:
        topology: as built.
        kafka: settings of all that is run.
        components: those to run; all unless given.
        acker: whether an acker worker runs.
        users: component, or `acker` → settings, if each runs as a user of its own.
    """
    Catalogue(dict(kafka)).publish(topology.manifest)
    chosen = [each.name for each in topology.manifest.components] if components is None else components
    running = InThreads(topology, users or dict.fromkeys([*chosen, *([ACKER] if acker else [])], kafka))
    try:
        yield running
    finally:
        running.stop()
        Catalogue(dict(kafka)).withdraw(topology.manifest.topology)
