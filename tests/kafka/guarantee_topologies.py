"""Topologies whose bolt `transform` is killed at chosen steps, for the tests of the guarantees.

A test arms a step by writing its name into a file; the first process that comes to that step takes the file away and
kills itself.
"""

import os
import random
import signal
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Producer

from kafka_clients import producer
from spout_sdk import (
    BasicBolt,
    BasicCollector,
    Failure,
    Spout,
    SpoutCollector,
    TaskContext,
    Topology,
    TopologyBuilder,
    Tuple,
    Window,
    WindowedBolt,
    declare,
    tumbling,
)
from spout_sdk.kafka.kafka_reader import KafkaReader
from spout_sdk.kafka.kafka_settings import KafkaSettings
from spout_sdk.runtime import task_loop
from tuple_tree.commit_metadata import Commit
from tuple_tree.manifest import Guarantee

NAME: Final = "GUARANTEE_TEST_TOPOLOGY"
DIRECTORY: Final = "GUARANTEE_TEST_DIRECTORY"
COPIES: Final = 2
"""Outputs of each input."""

STEPS: Final = ("executing", "emitted", "flushed", "offsets", "committing", "committed")
"""Where a process can be killed: before an input is executed, when its outputs are emitted, when they have arrived at
the broker, when the offsets have arrived, during the commit, and after it."""

SPOUT_SESSION_MS: Final = 45_000
"""See `PatientReader`."""

ENOUGH: Final = "enough"
ARMED: Final = "armed"
SIGNAL: Final = "signal"


def directory() -> Path:
    return Path(os.environ[DIRECTORY])


def _take(step: str) -> bool:
    armed = directory() / ARMED
    try:
        if armed.read_text() != step:
            return False
        armed.rename(directory() / f"taken-{os.getpid()}")
    except FileNotFoundError:  # nothing is armed, or another process was faster
        return False
    return True


def _die() -> None:
    number = directory() / SIGNAL
    os.kill(os.getpid(), int(number.read_text()) if number.exists() else signal.SIGKILL)


def kill_point(step: str) -> None:
    """Kills the process here if the test asks for this step."""
    if _take(step):
        _die()


@contextmanager
def kill_during(step: str) -> Iterator[None]:
    if _take(step):
        threading.Timer(random.uniform(0, 0.01), _die).start()
    yield


class KilledProducer(Producer):
    """A producer with named steps."""

    def send_offsets_to_transaction(self, positions: Any, group_metadata: Any, timeout: float = -1) -> None:
        kill_point("flushed")
        super().send_offsets_to_transaction(positions, group_metadata, timeout)
        kill_point("offsets")

    def commit_transaction(self, timeout: float = -1) -> None:
        with kill_during("committing"):
            super().commit_transaction(timeout)
        kill_point("committed")


class KilledReader(KafkaReader):
    """A reader with the same steps without transactions."""

    def commit(self, commits: Mapping[int, Commit]) -> None:
        kill_point("flushed")
        super().commit(commits)
        kill_point("committed")

    def commit_now(self, commits: Mapping[int, Commit], seconds: float) -> bool:
        done = super().commit_now(commits, seconds)
        kill_point("committed")
        return done


class PatientReader(KafkaReader):
    """A reader that stays a member of its group on a busy machine.

    The session is short so that the tasks of a killed `transform` soon have another owner. `numbers` is never killed,
    and if it lost its task and got it back, it would begin at 0 again, without outcomes of what was open.
    """

    def __init__(self, kafka: KafkaSettings, *arguments: Any, **options: Any) -> None:
        super().__init__({**kafka, "session.timeout.ms": SPOUT_SESSION_MS}, *arguments, **options)


if sys.argv[-1:] == ["numbers"]:
    # In its process only.
    task_loop.KafkaReader = PatientReader  # type: ignore[attr-defined]
if sys.argv[-1:] == ["transform"]:
    # In its processes only.
    producer.Producer = KilledProducer  # type: ignore[attr-defined]
    task_loop.KafkaReader = KilledReader  # type: ignore[attr-defined]


class Numbers(Spout):
    """Emits rising numbers, a few hundred a second, up to a limit; no number twice."""

    streams = (declare({"number": int}),)

    def open(self, context: TaskContext, collector: SpoutCollector) -> None:
        self.context = context
        self.collector = collector
        self.pause = threading.Event()
        self.number = 0
        self.acks: Counter[int] = Counter()

    def next_tuple(self) -> None:
        if (directory() / ENOUGH).exists():
            return
        self.collector.emit((self.number,), message_id=self.number)
        self.number += 1
        self.pause.wait(0.003)

    def ack(self, message_id: Any) -> None:
        self.acks[message_id] += 1
        if self.acks[message_id] > 1:
            self.context.count("acked again")

    def fail(self, message_id: Any, reason: Failure) -> None:
        self.context.count(f"failed: {reason.reason.word} {reason.message}")


class Transform(BasicBolt):
    streams = (declare({"number": int, "copy": int}),)

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        kill_point("executing")
        for copy in range(COPIES):
            collector.emit((tuple_["number"], copy))
        kill_point("emitted")


class Windows(WindowedBolt):
    """As `Transform`, when the windows of inputs close; a number is its own time, in milliseconds."""

    streams = Transform.streams
    window = tumbling(seconds=0.05).with_timestamp_field("number").with_watermark_interval(0.05)

    def execute_window(self, window: Window) -> None:
        kill_point("executing")
        for tuple_ in window.tuples:
            for copy in range(COPIES):
                self.collector.emit((tuple_["number"], copy), anchors=tuple_)
        kill_point("emitted")


class Sink(BasicBolt):
    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        pass


def _topology(guarantee: Guarantee, transform: type[BasicBolt | WindowedBolt] = Transform) -> Topology:
    builder = TopologyBuilder(
        os.environ[NAME], guarantee=guarantee, ack_partitions=2, message_timeout=180, max_spout_pending=20_000
    )
    builder.set_spout("numbers", Numbers)
    builder.set_bolt("transform", transform, tasks=3).shuffle_grouping("numbers")
    builder.set_bolt("sink", Sink, tasks=2).shuffle_grouping("transform")
    return builder.build()


def exactly_once() -> Topology:
    return _topology("exactly_once")


def at_least_once() -> Topology:
    return _topology("at_least_once")


def at_most_once() -> Topology:
    return _topology("at_most_once")


def windows() -> Topology:
    return _topology("exactly_once", Windows)
