"""Recovery of a topology from a restart of its only broker: from the kill until a hundred more trees are acked.

    python -m benchmarks.broker_restart                              # exactly once, seven kills
    python -m benchmarks.broker_restart --guarantee at_least_once
    python -m benchmarks.broker_restart --rounds 3 --away 2 --log run.log

A spout emits 200 tuples a second through four bolts; three of them have two processes each. The broker is killed with
SIGKILL, and started again on its files and port after `--away` seconds. With `--log`, a file has the logs of all
processes, and lines with KILL, START, ANSWERS and ACKED.
"""

import logging
import os
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, get_args

from acker_cli.processes.running import RunPlan, TopologyProcesses
from benchmarks import harness
from benchmarks.harness import Benchmark, BenchmarkError
from benchmarks.plan import EnvironmentPlan
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

RATE: Final = 200.0
_MESSAGE_TIMEOUT: Final = 120.0
_LIMIT: Final = 120.0
_QUIET: Final = 5.0
_SOME: Final = 100  # more than the acks that were under way at the kill
_STREAM: Final = declare({"number": int})
logger = logging.getLogger("benchmark")


@dataclass(frozen=True, slots=True)
class Plan(EnvironmentPlan):
    """The settings of a run."""

    name: str
    guarantee: Guarantee


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
    plan = Plan.from_environment()
    builder = TopologyBuilder(plan.name, guarantee=plan.guarantee, message_timeout=_MESSAGE_TIMEOUT)
    builder.set_spout("numbers", Numbers)
    before = "numbers"
    for name in ("first", "second", "third"):
        builder.set_bolt(name, Pass, tasks=2).shuffle_grouping(before)
        before = name
    builder.set_bolt("last", End).shuffle_grouping(before)
    return builder.build()


@contextmanager
def running(kafka: dict[str, Any], guarantee: Guarantee) -> Iterator[TopologyProcesses]:
    os.environ.update(Plan(f"restart-{uuid.uuid4().hex[:8]}", guarantee).environment)
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


def recover(broker: LocalKafka, components: TopologyRunner, away: float) -> dict[str, float]:
    """Kills the broker and starts it again; returns the seconds until it answers, and until trees are acked."""
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
    return {"answers_s": answers, "acked_s": took, "ended_processes": float(len(before - pids(components)))}


def main() -> None:
    bench = Benchmark("broker_restart", __doc__, quick="one kill", rounds=7)
    bench.option("--guarantee", "exactly_once", choices=get_args(Guarantee), help="of the topology")
    bench.option("--away", 5.0, quick=1.0, help="seconds from a kill until the broker is started")
    bench.option("--set", [], nargs="+", type=str, metavar="NAME=VALUE", help="librdkafka properties")
    bench.parser.add_argument("--log", type=Path, help="file for the logs of all processes")
    given = bench.start()
    if given.log is not None:
        os.dup2(os.open(given.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
    line = "%(asctime)s %(process)d %(levelname)s %(name)s: %(message)s"
    logging.basicConfig(level="INFO", format=line, stream=sys.stderr)
    with tempfile.TemporaryDirectory() as directory, LocalKafka(data_dir=Path(directory, "broker")) as broker:
        kafka = {"bootstrap.servers": broker.bootstrap_servers, **dict(each.split("=") for each in given.set)}
        with running(kafka, given.guarantee) as processes:
            components, kills = processes.components, []
            for _ in range(bench.rounds):
                wait(components, components.stats()["numbers"].acked + 5 * _SOME)
                time.sleep(_QUIET)
                kills.append(recover(broker, components, given.away))
            failed = sum(components.stats()["numbers"].failed.values())
    bench.publish([{"guarantee": given.guarantee, **harness.spreads(kills, 1), "failed": failed}])


if __name__ == "__main__":
    harness.run(main)
