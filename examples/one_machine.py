"""A topology of SDK and Spark components on one machine: a broker, acker workers, processes, and a Spark session.

On a cluster nothing of this is needed: there each part is a command of its own.
"""

import os
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any, Final

from pyspark.sql import SparkSession

import spark_jobs
from acker_cli.processes.running import RunPlan, TopologyProcesses
from kafka_clients.catalogue import Catalogue
from local_kafka import LocalKafka
from spark_jobs import RunningQuery
from spout_sdk import load_topology

_SPARK: Final = {
    # As many as cores: more partitions cost more than a small micro-batch itself.
    "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
    "spark.driver.memory": "1g",
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class Stopping:
    """Whether Ctrl-C or SIGTERM was received; a second one ends the process and its child processes immediately."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self.exit_code = 0

    def listen(self) -> None:
        """Installs the handlers; PySpark replaces that of Ctrl-C when a session starts, so again after that."""
        if not self:
            for number in _SIGNALS:
                signal.signal(number, self._on_signal)

    def __bool__(self) -> bool:
        return self._event.is_set()

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        self._event.set()
        self.exit_code = 128 + number
        for each in _SIGNALS:
            signal.signal(each, signal.SIG_DFL)


@dataclass(frozen=True, slots=True)
class Machine:
    """All running processes but the Spark components.

    Attributes:
        kafka: librdkafka properties of the broker.
        spark: a session for all Spark components.
        processes: ackers and SDK components.
        stopping: whether to end.
    """

    kafka: Mapping[str, Any]
    spark: SparkSession
    processes: TopologyProcesses
    stopping: Stopping

    def check(self, *queries: RunningQuery) -> None:
        """Checks that everything runs; to be called repeatedly.

        Raises:
            Exception: what ended a query, or keeps a process from running.
        """
        self.processes.check()
        for query in queries:
            if not query.query.isActive:
                query.wait()


@contextmanager
def one_machine(reference: str, environment: Mapping[str, str]) -> Iterator[Machine]:
    """Starts a topology without its Spark components, and stops it at the end.

    Args:
        reference: `MODULE:TOPOLOGY`.
        environment: variables that the topology reads.
    """
    os.environ.update(environment)
    topology = load_topology(reference)
    manifest = topology.manifest
    stopping = Stopping()
    stopping.listen()
    with ExitStack() as cleaning:
        kafka = {"bootstrap.servers": cleaning.enter_context(LocalKafka()).bootstrap_servers}
        catalogue = Catalogue(kafka)
        catalogue.create_topics(manifest)
        catalogue.publish(manifest)
        processes = cleaning.enter_context(TopologyProcesses(RunPlan(topology, reference, ackers=1), kafka))
        spark = spark_jobs.session(manifest.topology, "local[*]", _SPARK)
        cleaning.callback(spark.stop)
        stopping.listen()
        yield Machine(kafka, spark, processes, stopping)
