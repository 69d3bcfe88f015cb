"""The driver of a job that `acker spark submit` starts: one component of a topology, until it is stopped.

SIGTERM, Ctrl-C or the end of its submitter stop it: it finishes its micro-batch and ends with code 0.
Kafka's settings come as JSON, from `--kafka-file` or from the file that the variable `ACKER_SPARK_KAFKA_FILE` names,
never on the command line, which everybody on the machine can read.
"""

import argparse
import json
import logging
import os
import re
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from confluent_kafka import KafkaException
from prometheus_client import CollectorRegistry, ProcessCollector, start_http_server
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from kafka_clients.access import component_role, remedy
from kafka_clients.topology_reference import ReferenceLoadError, load_reference
from spark_jobs.bolts import bolt
from spark_jobs.components import HasCode, declared, source_of
from spark_jobs.errors import SparkJobError, SubmitError, first_line
from spark_jobs.kafka_options import check_access
from spark_jobs.packages import session
from spark_jobs.running_query import RunningQuery
from spark_jobs.spouts import DEFAULT_MAX_ROWS, spout
from spark_jobs.submit import KAFKA_VARIABLE, logger, stop_with_submitter
from tuple_tree.components import SpoutManifest

_SERVERS_VARIABLE: Final = "ACKER_KAFKA__BOOTSTRAP_SERVERS"
_LOOK_SECONDS: Final = 1
# Java's, somewhere in a page of others, and librdkafka's.
_NOT_ALLOWED: Final = re.compile(
    r"\w*(?:Authorization|Authentication)Exception: [^\n]*|[^\n]*_AUTHORIZATION_FAILED[^\n]*"
)


def load(reference: str) -> HasCode:
    """Imports the topology that `module:attribute` names, and calls it if it is a function."""
    try:
        return load_reference(reference, HasCode)  # type: ignore[type-abstract]
    except ReferenceLoadError as error:
        hint = "; on a cluster, the module has to be in --py-files" if isinstance(error.__cause__, ImportError) else ""
        raise SubmitError(f"{error}{hint}") from error


def kafka_settings(file: str | None, environment: Mapping[str, str]) -> dict[str, Any]:
    name = file or environment.get(KAFKA_VARIABLE)
    if name is None:
        if _SERVERS_VARIABLE not in environment:
            raise SubmitError(f"there are no Kafka settings: set {_SERVERS_VARIABLE}, or give --kafka-file")
        return {"bootstrap.servers": environment[_SERVERS_VARIABLE]}
    try:
        settings = dict(json.loads(Path(name).read_text()))
        if file is None:
            Path(name).unlink()
    except (OSError, ValueError, TypeError) as error:
        raise SubmitError(f"the Kafka settings cannot be read: {error}; give a JSON object") from error
    return settings


def started(spark: SparkSession, topology: HasCode, given: argparse.Namespace, kafka: dict[str, Any]) -> RunningQuery:
    component, code = declared(topology, given.component)
    settings: dict[str, Any] = {
        "kafka": kafka,
        "checkpoint": given.checkpoint,
        "trigger": {"availableNow": True} if given.available_now else None,
    }
    if not isinstance(component, SpoutManifest):
        return bolt(spark, topology, component.name, code, max_rows=given.max_rows, **settings)
    source = source_of(spark, component.name, code)
    return spout(
        spark,
        topology,
        component.name,
        source,
        # Never more than half of what may be open.
        max_rows=component.max_pending if given.max_rows == 0 else given.max_rows or DEFAULT_MAX_ROWS,
        **settings,
    )


def run(given: argparse.Namespace) -> None:
    stopping = threading.Event()
    # Before Spark starts, so that a signal in these seconds is not lost.
    _handle_signals(stopping)
    stop_with_submitter(stopping.set, os.environ)
    topology = load(given.topology)
    component, code = declared(topology, given.component)
    kafka = kafka_settings(given.kafka_file, os.environ)
    # Before Spark starts, which takes longer and says less.
    source = code if isinstance(code, str) else None
    check_access(kafka, component_role(topology.manifest, component.name, source))
    if stopping.is_set():
        return
    name = f"{topology.manifest.topology}.{given.component}"
    spark = session(name)
    # PySpark takes Ctrl-C for itself, and would cancel the micro-batch that runs.
    _handle_signals(stopping)
    try:
        query = started(spark, topology, given, kafka)
        if given.metrics is not None:
            _serve(query, given.metrics)
        while not (stopping.is_set() or query.wait(_LOOK_SECONDS)):
            pass
        query.stop()
        query.wait()
    except (StreamingQueryException, KafkaException) as error:
        raise SubmitError(explained(name, error)) from error
    finally:
        spark.stop()


def _serve(query: RunningQuery, address: str) -> None:
    host, _, port = address.rpartition(":")
    registry = CollectorRegistry()
    registry.register(query.metrics)
    ProcessCollector(registry=registry)
    try:
        server, _ = start_http_server(int(port), addr=host, registry=registry)
    except (OSError, ValueError) as error:
        raise SubmitError(f"metrics cannot be served at {address}: {error}; choose another port") from error
    logger.info("metrics at http://%s:%d/metrics", host, server.server_port)


def explained(name: str, error: Exception) -> str:
    """The message for a job that failed, with what to do."""
    denied = _NOT_ALLOWED.search(str(error))
    if denied:
        return f"{name} failed: {denied[0].strip()}; {remedy(name.partition('.')[2])}, and start it again"
    return (
        f"{name} failed: {first_line(error)}; fix the cause, which is in the log above, and start it again: it "
        "continues from its checkpoint"
    )


def _handle_signals(stopping: threading.Event) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="spark_jobs.main", description=__doc__.partition("\n")[0])
    parser.add_argument("--topology", required=True, metavar="MODULE:TOPOLOGY")
    parser.add_argument("--component", required=True)
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--kafka-file")
    parser.add_argument("--max-rows", type=int, help="of a micro-batch; 0 for all")
    parser.add_argument("--metrics", metavar="HOST:PORT", help="serve /metrics for Prometheus; port 0 takes a free one")
    parser.add_argument("--available-now", action="store_true", help="end when all that is there is processed")
    return parser.parse_args(arguments)


def main() -> None:
    """Runs the job; where that is not possible, prints a line for a person instead of a traceback."""
    # spark-submit puts this file's own directory first, which is not a place to import from.
    sys.path[0] = os.getcwd()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    try:
        run(parsed(sys.argv[1:]))
    except SparkJobError as error:
        sys.exit(f"acker: {error}")


if __name__ == "__main__":
    main()
