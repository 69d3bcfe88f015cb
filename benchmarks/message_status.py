"""How long `acker status` takes, with millions of messages in the source topic and an outcome of each.

    python -m benchmarks.message_status
    python -m benchmarks.message_status --messages 1000000
    python -m benchmarks.message_status --quick

A topic of eight partitions is filled with messages of 100 bytes under keys of their own, and a topic of outcomes with
the outcome of each. They are committed as done. Each question is asked by a new process, as at a terminal: `seconds`
are from its start to its end, with half a second for Python and the first answer of the broker.
"""

import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import cycle
from typing import Final
from zlib import crc32

from confluent_kafka import Consumer, TopicPartition

from benchmarks import harness
from benchmarks.harness import Benchmark, BenchmarkError, Spread
from benchmarks.topics import Record, Topics, broker, payloads
from spout_sdk import BasicBolt, BasicCollector, KafkaSpout, TopologyBuilder, Tuple
from tuple_tree.names import component_group

PARTITIONS: Final = 8
_NAME: Final = "status"
_SOURCE: Final = "status.source"
_OUTCOMES: Final = "status.outcomes"
_LAST_MS: Final = 3_600_000  # over which the messages were written, by their timestamps


class Ship(BasicBolt):
    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        """Does nothing."""


def key_of(number: int) -> bytes:
    return b"ORDER-%08d" % number


def partition_of(number: int) -> int:
    return crc32(key_of(number)) % PARTITIONS


def fill(topics: Topics, messages: int) -> None:
    """Creates the topics, and writes messages, their outcomes, and the commits of the spout's group."""
    builder = TopologyBuilder(_NAME)
    builder.set_spout("orders", KafkaSpout(_SOURCE, outcomes=_OUTCOMES), tasks=2)
    builder.set_bolt("ship", Ship).shuffle_grouping("orders")
    topics.create({_SOURCE: PARTITIONS, _OUTCOMES: PARTITIONS})
    topics.create_for(builder.build().manifest)
    begin_ms, ends = time.time_ns() // 1_000_000 - _LAST_MS, Counter[int]()

    def record(number: int, value: bytes) -> Record:
        at_ms = begin_ms + _LAST_MS * number // messages
        return Record(value, partition_of(number), key=key_of(number), at_ms=at_ms)

    def outcomes() -> Iterator[Record]:
        for number in range(messages):
            empty = record(number, b"")
            outcome = (
                b'{"topic":"%s","partition":%d,"offset":%d,"outcome":"acked","attempts":1,"first_emit":%d,"end":%d,'
                b'"reason":"","component":"","failure":""}'
            ) % (_SOURCE.encode(), empty.partition, ends[empty.partition], empty.at_ms, empty.at_ms + 50)
            ends[empty.partition] += 1
            yield empty._replace(value=outcome, at_ms=empty.at_ms + 50)

    topics.write(_SOURCE, (record(number, value) for number, value in zip(range(messages), cycle(payloads()))))
    topics.write(_OUTCOMES, outcomes())
    consumer = Consumer({**topics.kafka, "group.id": component_group(_NAME, "orders")})
    consumer.commit(offsets=[TopicPartition(_SOURCE, at, end) for at, end in ends.items()], asynchronous=False)
    consumer.close()


def ask(servers: str, *arguments: str) -> float:
    """Asks a question; returns the seconds. Raises `BenchmarkError` if the answer is not the expected one."""
    command = [sys.executable, "-m", "acker_cli", "status", _NAME, *arguments, "--bootstrap-servers", servers, "--json"]
    began = time.monotonic()
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds = time.monotonic() - began
    if ("has no message" if "NONE" in arguments else '"state"') not in ended.stdout + ended.stderr:
        raise BenchmarkError(f"acker status {' '.join(arguments)}: {ended.stderr}{ended.stdout}")
    return seconds


def main() -> None:
    bench = Benchmark("message_status", __doc__, quick="one round with few messages")
    bench.option("--messages", 10_000_000, quick=100_000, help="in the source")
    messages = bench.start().messages
    middle = random.Random(1).randrange(messages // 3, messages // 2)
    partition, none = partition_of(middle), ("--key", "NONE")
    questions = {
        "a recent key": ("--key", key_of(messages - 1).decode()),
        "a position in the middle": ("--offset", f"{partition}/{messages // PARTITIONS // 2}"),
        "the first position": ("--offset", f"{partition}/0"),
        "a key from the last percent": ("--key", key_of(messages - messages // 100).decode()),
        "a key from the middle": ("--key", key_of(middle).decode()),
        "the first key": ("--key", key_of(0).decode()),
        "a key that does not exist, --since 1m": (*none, "--since", "1m"),
        "a key that does not exist": none,
    }
    with broker() as topics:
        harness.say(f"writes {messages:,} messages and outcomes")
        fill(topics, messages)
        asked = {name: partial(ask, topics.servers, *arguments) for name, arguments in questions.items()}
        results = harness.in_turn(asked, bench.rounds)
    rows = [{"question": name, "seconds": Spread.of(of_name, 2)} for name, of_name in results.items()]
    bench.publish(rows, partitions=PARTITIONS, bytes=len(payloads()[0]))


if __name__ == "__main__":
    harness.run(main)
