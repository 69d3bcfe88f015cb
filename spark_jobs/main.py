"""The driver of a job that `acker spark submit` starts: one component of a topology, until SIGTERM.

The topology is whatever `MODULE:TOPOLOGY` names; the component's `transform` is what the topology was given for it:

    builder.set_bolt("split", transform, external=True, streams=[declare({"word": str})])

Kafka's settings come as JSON, from `--kafka-file` or from the variable `ACKER_SPARK_KAFKA`, never on the command line,
which everybody on the machine can read.
"""

import argparse
import importlib
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from spark_jobs.bolt import DEFAULT_MAX_ROWS, bolt, component_of
from spark_jobs.errors import SparkJobError, SubmitError
from spark_jobs.packages import session
from spark_jobs.submit import KAFKA_VARIABLE
from tuple_tree.manifest import BoltManifest

_SERVERS_VARIABLE: Final = "ACKER_KAFKA__BOOTSTRAP_SERVERS"
_LOOK_SECONDS: Final = 1


def load(reference: str) -> Any:
    """Imports what `module:attribute` names, and calls it if it is a function.

    Raises:
        SubmitError: if it leads to nothing that has a manifest and factories.
    """
    module_name, _, attribute = reference.partition(":")
    if not (module_name and attribute):
        raise SubmitError(f"{reference!r} is no reference: write MODULE:TOPOLOGY")
    try:
        found = importlib.import_module(module_name)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise SubmitError(
            f"cannot load {reference!r}: {error}; on a cluster give the module with --py-files"
        ) from error
    built: Any = found() if callable(found) else found
    if not (hasattr(built, "manifest") and hasattr(built, "factories")):
        raise SubmitError(f"{reference!r} is a {type(built).__name__}: name what TopologyBuilder.build() returned")
    return built


def kafka_settings(file: str | None, environment: Mapping[str, str]) -> dict[str, Any]:
    """Kafka's settings.

    Raises:
        SubmitError: if there are none, or they cannot be read.
    """
    try:
        if file is not None:
            return dict(json.loads(Path(file).read_text()))
        if KAFKA_VARIABLE in environment:
            return dict(json.loads(environment[KAFKA_VARIABLE]))
    except (OSError, ValueError, TypeError) as error:
        raise SubmitError(f"the Kafka settings cannot be read: {error}; give a JSON object") from error
    if _SERVERS_VARIABLE in environment:
        return {"bootstrap.servers": environment[_SERVERS_VARIABLE]}
    raise SubmitError(f"there are no Kafka settings: set {_SERVERS_VARIABLE}, or give --kafka-file")


def run(given: argparse.Namespace) -> None:
    """Runs the component until it is told to stop.

    Raises:
        SparkJobError: if it cannot be run.
    """
    topology = load(given.topology)
    component = component_of(topology.manifest, given.component)
    if not isinstance(component, BoltManifest):
        raise SubmitError(f"{given.component!r} is a spout: only bolts are run this way")
    if not component.external:
        raise SubmitError(f"{given.component!r} is run by the SDK: add it with external=True to run it in Spark")
    stopping = threading.Event()
    # Before Spark starts, so that a signal in these seconds is not lost.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    if given.pid_file is not None:
        Path(given.pid_file).write_text(str(os.getpid()))
    spark = session(f"{topology.manifest.topology}.{given.component}")
    try:
        query = bolt(
            spark,
            topology,
            given.component,
            topology.factories[given.component],
            kafka=kafka_settings(given.kafka_file, os.environ),
            checkpoint=given.checkpoint,
            max_rows=given.max_rows or None,
            lanes=given.lanes,
        )
        while not stopping.is_set():
            if query.wait(_LOOK_SECONDS):
                return
        query.stop()
        query.wait()
    finally:
        spark.stop()


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(prog="spark_jobs.main", description=__doc__.partition("\n")[0])
    parser.add_argument("--topology", required=True, metavar="MODULE:TOPOLOGY")
    parser.add_argument("--component", required=True)
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--kafka-file")
    parser.add_argument("--pid-file")
    parser.add_argument("--max-rows", type=int, default=DEFAULT_MAX_ROWS, help="of a micro-batch; 0 for all")
    parser.add_argument("--lanes", type=int, default=1)
    return parser.parse_args(arguments)


def main() -> None:
    """Runs, and ends with a line for a person instead of a traceback where the job cannot be run."""
    # spark-submit puts this file's own directory first, which is no place to import from.
    sys.path[0] = os.getcwd()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    try:
        run(parsed(sys.argv[1:]))
    except SparkJobError as error:
        sys.exit(f"acker: {error}")


if __name__ == "__main__":
    main()
