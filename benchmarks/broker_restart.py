"""Recovery of a topology from a restart of its only broker: from the kill until a hundred more trees are acked.

    python -m benchmarks.broker_restart                              # exactly once, seven kills
    python -m benchmarks.broker_restart --guarantee at_least_once
    python -m benchmarks.broker_restart --kills 3 --away 2 --log run.log

A spout emits 200 tuples a second through four bolts; three of them have two processes each. The broker is killed with
SIGKILL, and started again on its files and port after `--away` seconds. With `--log`, a file has the logs of all
processes, and lines with KILL, START, ANSWERS and ACKED.
"""

import argparse
import logging
import os
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, cast, get_args

from acker_cli.processes.running import RunPlan, TopologyProcesses
from benchmarks import harness
from benchmarks.harness import BenchmarkError
from kafka_clients.catalogue import Catalogue
from local_kafka import LocalKafka
from spout_sdk import (
    BasicBolt,
    BasicCollector,
    Spout,
    SpoutCollector,
    TaskContext,
    Topology,
    TopologyBuilder,
    TopologyRunner,
    Tuple,
    declare,
    load_topology,
)
from tuple_tree.manifest import Guarantee

NAME: Final = "BROKER_RESTART_NAME"
GUARANTEE: Final = "BROKER_RESTART_GUARANTEE"
RATE: Final = 200.0
_MESSAGE_TIMEOUT: Final = 120.0
_LIMIT: Final = 120.0
_QUIET: Final = 5.0
_SOME: Final = 100  # more than the acks that were under way at the kill
_STREAM: Final = declare({"number": int})
logger = logging.getLogger("benchmark")


class Numbers(Spout):
    streams = (_STREAM,)

    def open(self, context: TaskContext, collector: SpoutCollector) -> None:
        self._collector = collector
        self._began, self._next = time.monotonic(), 0

    def next_tuple(self) -> None:
        if self._next <= (time.monotonic() - self._began) * RATE:
            self._collector.emit([self._next], message_id=str(self._next))
            self._next += 1


class Pass(BasicBolt):
    streams = (_STREAM,)

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        collector.emit([tuple_[0]])


class End(BasicBolt):
    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        """Does nothing."""


def topology() -> Topology:
    guarantee = cast(Guarantee, os.environ[GUARANTEE])
    builder = TopologyBuilder(os.environ[NAME], guarantee=guarantee, message_timeout=_MESSAGE_TIMEOUT)
    builder.set_spout("numbers", Numbers)
    before = "numbers"
    for name in ("first", "second", "third"):
        builder.set_bolt(name, Pass, tasks=2).shuffle_grouping(before)
        before = name
    builder.set_bolt("last", End).shuffle_grouping(before)
    return builder.build()


@contextmanager
def running(kafka: dict[str, Any], guarantee: str) -> Iterator[TopologyProcesses]:
    os.environ[NAME], os.environ[GUARANTEE] = f"restart-{uuid.uuid4().hex[:8]}", guarantee
    reference = "benchmarks.broker_restart:topology"
    made = load_topology(reference)
    catalogue = Catalogue(kafka)
    catalogue.create_topics(made.manifest, 1)
    catalogue.publish(made.manifest)
    plan = RunPlan(made, reference, processes=dict.fromkeys(("first", "second", "third"), 2), ackers=1)
    with TopologyProcesses(plan, kafka, log_level="info") as processes:
        yield processes


def wait(components: TopologyRunner, acked: int) -> None:
    """Waits until more trees than that are acked."""
    deadline = time.monotonic() + _LIMIT
    while components.stats()["numbers"].acked <= acked:
        if time.monotonic() > deadline:
            raise BenchmarkError(f"no more than {acked} trees are acked within {_LIMIT:.0f} s")
        time.sleep(0.05)


def pids(components: TopologyRunner) -> set[int]:
    return {pid for several in components.pids().values() for pid in several}


def recover(broker: LocalKafka, components: TopologyRunner, away: float) -> float:
    """Kills the broker and starts it again; returns the seconds until trees are acked again."""
    before = pids(components)
    logger.info("KILL")
    killed = time.monotonic()
    broker.kill()
    time.sleep(away)
    logger.info("START")
    acked = components.stats()["numbers"].acked
    broker.start()
    logger.info("ANSWERS")
    answers = time.monotonic() - killed
    wait(components, acked + _SOME)
    logger.info("ACKED")
    took = time.monotonic() - killed
    ended = len(before - pids(components))
    print(
        f"the broker answers after {answers:.1f} s, trees are acked after {took:.1f} s; {ended} processes ended",
        flush=True,
    )
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--guarantee", choices=get_args(Guarantee), default="exactly_once")
    parser.add_argument("--kills", type=int, default=7)
    parser.add_argument("--away", type=float, default=5.0, help="seconds from the kill until the broker is started")
    parser.add_argument("--log", type=Path, help="file for the logs of all processes")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a librdkafka property")
    given = parser.parse_args()
    if given.log is not None:
        os.dup2(os.open(given.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
    line = "%(asctime)s %(process)d %(levelname)s %(name)s: %(message)s"
    logging.basicConfig(level="INFO", format=line, stream=sys.stderr)
    took = list[float]()
    with tempfile.TemporaryDirectory() as directory, LocalKafka(data_dir=Path(directory, "broker")) as broker:
        kafka = {"bootstrap.servers": broker.bootstrap_servers, **dict(each.split("=") for each in given.set)}
        with running(kafka, given.guarantee) as processes:
            components = processes.components
            for _ in range(given.kills):
                wait(components, components.stats()["numbers"].acked + 5 * _SOME)
                time.sleep(_QUIET)
                took.append(recover(broker, components, given.away))
            failed = sum(components.stats()["numbers"].failed.values())
    print(
        f"{given.guarantee}: trees are acked after {min(took):.1f} to {max(took):.1f} s, median "
        f"{statistics.median(took):.1f} s; {failed} trees failed"
    )


if __name__ == "__main__":
    harness.run(main)
