"""Spouts and bolts of numbered messages, in processes of their own: each part of a message is an effect, in an `Arena`.

The names of topology and directory are in the environment.
"""

import json
import os
import threading
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from spout_sdk import (
    BasicBolt,
    BasicCollector,
    Failure,
    KafkaBolt,
    KafkaSpout,
    Spout,
    SpoutCollector,
    TaskContext,
    Tuple,
    declare,
)
from spout_sdk.kafka_spout import Record
from tests.chaos.arena import PARTS, Arena

NAME: Final = "TEST_TOPOLOGY"
DIRECTORY: Final = "TEST_DIRECTORY"
SOURCE_PARTITIONS: Final = 2
RATE: Final = 100
"""Messages a second of each topology under random faults."""
_OFFSET_MASK: Final = 2**40 - 1


def directory() -> Path:
    return Path(os.environ[DIRECTORY])


def is_over() -> bool:
    """Whether no more messages are to be made."""
    return (directory() / "over").exists()


def arena_of(topology: str) -> Arena:
    return Arena(directory() / f"{topology}.arena")


def source_of(topology: str) -> str:
    return f"{topology}.source"


def results_of(topology: str) -> str:
    """The topic that a `Publish` writes."""
    return f"{topology}.results"


def outcomes_of(topology: str) -> str:
    """The topic of the outcomes of a spout."""
    return f"{topology}.outcomes"


def number_of(partition: int, offset: int) -> int:
    """The messages of a source are numbered as they lie in its partitions by turns."""
    return offset * SOURCE_PARTITIONS + partition


class Numbers(Spout):
    """Emits rising numbers, failed ones again, and after a restart those without an ack."""

    streams = (declare({"number": int}),)

    def open(self, context: TaskContext, collector: SpoutCollector) -> None:
        self.arena, self.collector = arena_of(context.topology), collector
        self.pause = threading.Event()
        self.number = self.arena.emitted
        self.again = deque(number for number in range(self.number) if not self.arena.acked_at[number])

    def next_tuple(self) -> None:
        if self.again:
            number = self.again.popleft()
        elif is_over():
            return
        else:
            number, self.number = self.number, self.number + 1
            self.pause.wait(1 / RATE)
        self.arena.emit(number, time.time())
        self.collector.emit((number,), message_id=number)

    def ack(self, message_id: Any) -> None:
        self.arena.ack(message_id, time.time())

    def fail(self, message_id: Any, _failure: Failure) -> None:
        self.again.append(message_id)


class Source(KafkaSpout):
    """A Kafka spout that records its acks and fails."""

    def open(self, context: TaskContext, collector: SpoutCollector) -> None:
        self.arena = arena_of(context.topology)
        super().open(context, collector)

    def ack(self, message_id: Any) -> None:
        super().ack(message_id)
        self.arena.ack(self._number(message_id), time.time())

    def fail(self, message_id: Any, failure: Failure) -> None:
        self.arena.fail(self._number(message_id))
        super().fail(message_id, failure)

    @staticmethod
    def _number(message_id: int) -> int:
        return number_of(message_id >> 40, message_id & _OFFSET_MASK)


def numbered(record: Record) -> tuple[int]:
    return (number_of(record.partition() or 0, record.offset() or 0),)


@dataclass
class Number:
    number: int


@dataclass
class Part:
    number: int
    part: int


def split(row: Number) -> Iterator[Part]:
    for part in range(PARTS):
        yield Part(row.number, part)


class Sink(BasicBolt):
    """A tuple is an effect."""

    def prepare(self, context: TaskContext) -> None:
        self.arena = arena_of(context.topology)

    def execute(self, tuple_: Tuple, _collector: BasicCollector) -> None:
        self.arena.effect(tuple_["number"], tuple_["part"])


class Publish(KafkaBolt):
    """A tuple is an effect, and a record in a topic."""

    def __init__(self, topology: str) -> None:
        super().__init__(results_of(topology), value=self.effect)
        self._topology = topology

    @cached_property
    def arena(self) -> Arena:
        return arena_of(self._topology)

    def effect(self, tuple_: Tuple) -> str:
        number, part = tuple_["number"], tuple_["part"]
        self.arena.effect(number, part)
        return json.dumps({"number": number, "part": part}, separators=(",", ":"))
