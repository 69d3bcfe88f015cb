"""A topology under faults, with everything that runs for it."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from confluent_kafka.admin import NewTopic

from acker_cli.processes.running import RunPlan, TopologyProcesses
from kafka_clients.catalogue import Catalogue
from spout_sdk import KafkaBolt, Topology
from tests.chaos import topologies
from tests.chaos.arena import Arena
from tests.chaos.brokers import Brokers
from tests.kafka.sdk_rig import Cluster, progress
from tests.topics import create_topics
from tests.unit.cli.running import descendants
from tuple_tree.names import component_group

_SPARK: Final = ("spark.sql.shuffle.partitions=2", "spark.ui.enabled=false")
_STOP_SECONDS: Final = 120


class Driver:
    """A component's Spark driver: the command that submits it, started again whenever it has ended."""

    def __init__(self, reference: str, component: str, servers: str, checkpoint: Path) -> None:
        self._line = [
            *(sys.executable, "-m", "acker_cli", "spark", "submit", reference, "--component", component),
            *("--master", "local[2]", "--checkpoint", str(checkpoint), "--bootstrap-servers", servers, "--"),
            *(part for setting in _SPARK for part in ("--conf", setting)),
            *("--driver-memory", "1g"),
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def check(self) -> None:
        """Starts it, if it does not run."""
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(self._line, stdin=subprocess.DEVNULL, start_new_session=True)

    def pids(self) -> list[int]:
        """The command, Spark's Java and Python's workers."""
        assert self._process is not None
        return [*descendants(self._process.pid), self._process.pid]

    def stop(self) -> None:
        """Ends it in order; kills it if that takes too long."""
        if self._process is None:
            return
        pids = self.pids()
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._process.wait()


class Target:
    """A topology under faults; as a context manager, all of it runs.

    Args:
        make: the function of `topologies` that builds it.
        brokers: where it runs.

    Attributes:
        components: that have processes.
        in_spark: those of them that run in Spark.
        publishes: whether it has results in a topic.
        has_windows: which hold the last messages until closing ones come.
    """

    components: Sequence[str] = ("numbers", "split", "sink")

    def __init__(self, make: Callable[[], Topology], brokers: Brokers) -> None:
        self.topology = make()
        name, manifest = self.topology.name, self.topology.manifest
        reference = f"{topologies.__name__}:{make.__name__}"
        self.tracked = manifest.acking
        self.has_source = "numbers" in self.topology.kafka_sources
        self.source = topologies.source_of(name)
        self.publishes = isinstance(self.topology.factory("sink")(), KafkaBolt)
        self.in_spark = [each.name for each in manifest.components if each.external]
        self.has_windows = not self.in_spark and self.topology.factory("split") is topologies.SplitWindows
        self.arena = Arena(topologies.directory() / f"{name}.arena", "w+")
        self.cluster = Cluster(brokers.bootstrap_servers, manifest)
        kafka = self.cluster.bootstrap
        if self.has_source:
            create_topics(kafka, [NewTopic(self.source, topologies.SOURCE_PARTITIONS, brokers.replication)])
        if self.publishes:
            create_topics(kafka, [NewTopic(topologies.results_of(name), 2, brokers.replication)])
        catalogue = Catalogue(kafka)
        catalogue.create_topics(manifest, brokers.replication)
        catalogue.publish(manifest)
        plan = RunPlan(self.topology, reference, ackers=int(self.tracked))
        self._processes = TopologyProcesses(plan, kafka, log_level="info")
        self._drivers = {
            component: Driver(
                reference, component, brokers.bootstrap_servers, topologies.directory() / f"{name}-{component}"
            )
            for component in self.in_spark
        }

    def __enter__(self) -> Self:
        self._processes.__enter__()
        self.check()
        return self

    def __exit__(self, *_: object) -> None:
        stops = [self._processes.stop, *(driver.stop for driver in self._drivers.values())]
        threads = [threading.Thread(target=stop) for stop in stops]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def check(self) -> None:
        """Sees to it that everything runs."""
        self._processes.check()
        for driver in self._drivers.values():
            driver.check()

    def pids(self, component: str) -> list[int]:
        """The processes of a component, or of the acker."""
        if component == "acker":
            return self._processes.ackers.pids()
        driver = self._drivers.get(component)
        return self._processes.components.pids()[component] if driver is None else driver.pids()

    def is_done(self) -> bool:
        """Whether it has no more messages."""
        if self.tracked:
            return self.arena.acked == self.arena.emitted
        source = progress(self.cluster.bootstrap, component_group(self.topology.name, "numbers"), self.source)
        return all(at == end for at, end in source.values()) and all(
            at == end for bolt in ("split", "sink") for at, end in self.cluster.progress(bolt).values()
        )
