"""How long `acker status` takes, with millions of messages in the source topic and an outcome of each.

    python -m benchmarks.message_status
    python -m benchmarks.message_status --messages 1000000 --rate 2000
    python -m benchmarks.message_status --quick

A topic of eight partitions is filled with messages of 100 bytes under keys of their own, and a topic of outcomes with
the outcome of each. They are committed as done. Then a topology runs, which acks one more message, holds one, and fails
one. With `--rate`, messages are written and acked all the time. Each question is asked by a new process, as at a
terminal: `seconds` are from its start to its end, with half a second for Python and the first answer of
the broker.
"""

import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import cycle
from typing import Any, Final
from zlib import crc32

from confluent_kafka import Consumer, Producer, TopicPartition

from acker_worker.worker import AckerWorker
from benchmarks import harness
from benchmarks.harness import Benchmark, BenchmarkError, Spread
from benchmarks.topics import Record, Topics, broker, payloads
from inspection.errors import InspectionError
from inspection.message_status import State, status
from kafka_clients.catalogue import Catalogue
from spout_sdk import (
    BasicBolt,
    BasicCollector,
    Bolt,
    ComponentRunner,
    FailTupleError,
    KafkaSpout,
    OutputCollector,
    RetryPolicy,
    TaskContext,
    Topology,
    TopologyBuilder,
    Tuple,
    declare,
)
from tuple_tree.names import component_group

MESSAGES: Final = 10_000_000
PARTITIONS: Final = 8
_QUICK_MESSAGES: Final = 100_000
_NAME: Final = "status"
_SOURCE: Final = "status.source"
_OUTCOMES: Final = "status.outcomes"
_LAST_SECONDS: Final = 3_600.0  # over which the messages were written, by their timestamps
_WAIT_SECONDS: Final = 60.0


class Pack(BasicBolt):
    streams = (declare({"value": str}),)

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        collector.emit((tuple_["value"],))


class Ship(Bolt):
    """Never acks `hold`, and fails `fail`."""

    def prepare(self, context: TaskContext, collector: OutputCollector) -> None:
        self._collector = collector

    def execute(self, tuple_: Tuple) -> None:
        if tuple_["value"] == "fail":
            raise FailTupleError("sold out")
        if tuple_["value"] != "hold":
            self._collector.ack(tuple_)


def topology() -> Topology:
    """A message's second failure waits for ten minutes."""
    retry = RetryPolicy(initial_delay=0.0, delay_period=300.0, max_delay=600.0)
    builder = TopologyBuilder(_NAME, message_timeout=600.0)
    builder.set_spout("orders", KafkaSpout(_SOURCE, retry=retry, outcomes=_OUTCOMES), tasks=2)
    builder.set_bolt("pack", Pack).shuffle_grouping("orders")
    builder.set_bolt("ship", Ship).shuffle_grouping("pack")
    return builder.build()


def key_of(number: int) -> bytes:
    return b"ORDER-%08d" % number


def fill(topics: Topics, built: Topology, messages: int) -> None:
    """Creates the topics, and writes messages, their outcomes, and the commits of the spout's group."""
    topics.create({_SOURCE: PARTITIONS, _OUTCOMES: PARTITIONS})
    topics.create_for(built.manifest)
    begin_ms, ends = time.time_ns() // 1_000_000 - round(_LAST_SECONDS * 1_000), Counter[int]()

    def record(number: int, value: bytes, delay_ms: int = 0) -> Record:
        key, at_ms = key_of(number), begin_ms + round(_LAST_SECONDS * 1_000 * number / messages)
        return Record(value, crc32(key) % PARTITIONS, key=key, at_ms=at_ms + delay_ms)

    def outcomes() -> Iterator[Record]:
        for number in range(messages):
            empty = record(number, b"", 50)
            outcome = (
                b'{"topic":"%s","partition":%d,"offset":%d,"outcome":"acked","attempts":1,"first_emit":%d,"end":%d,'
                b'"reason":"","component":"","failure":""}'
            ) % (_SOURCE.encode(), empty.partition, ends[empty.partition], empty.at_ms - 50, empty.at_ms)
            ends[empty.partition] += 1
            yield empty._replace(value=outcome)

    topics.write(_SOURCE, (record(number, value) for number, value in zip(range(messages), cycle(payloads()))))
    topics.write(_OUTCOMES, outcomes())
    consumer = Consumer({**topics.kafka, "group.id": component_group(_NAME, "orders")})
    consumer.commit(offsets=[TopicPartition(_SOURCE, at, end) for at, end in ends.items()], asynchronous=False)
    consumer.close()


@contextmanager
def running(kafka: dict[str, Any], built: Topology, rate: int) -> Iterator[None]:
    """Runs the topology and an acker worker in threads, and writes messages at a rate a second."""
    Catalogue(kafka).publish(built.manifest)
    services: list[AckerWorker | ComponentRunner] = [AckerWorker(_NAME, kafka)]
    services += [ComponentRunner(built, name, kafka) for name in ("orders", "pack", "ship")]
    threads = [threading.Thread(target=service.run, daemon=True) for service in services]
    ending = threading.Event()
    threads.append(threading.Thread(target=_write, args=(kafka, rate, ending), daemon=True))
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ending.set()
        for service in services:
            service.stop()
        for thread in threads:
            thread.join(_WAIT_SECONDS)


def _write(kafka: dict[str, Any], rate: int, ending: threading.Event) -> None:
    producer = Producer({**kafka, "linger.ms": 5})
    while rate and not ending.wait(0.1):
        for _ in range(rate // 10):
            producer.produce(_SOURCE, "ok", b"RATE-%d" % time.monotonic_ns())
        producer.poll(0)
    producer.flush(60)


def deliver(kafka: dict[str, Any], state: State, key: bytes, value: str) -> None:
    """Writes a message, and waits until it has a state."""
    producer = Producer(kafka)
    producer.produce(_SOURCE, value, key)
    producer.flush(60)
    deadline = time.monotonic() + _WAIT_SECONDS
    while time.monotonic() < deadline:
        try:
            found = status(_NAME, kafka, key=key)
        except InspectionError:
            continue
        if found.state is state and (state is not State.WAITING or found.attempt == 2):
            return
        time.sleep(0.5)
    raise BenchmarkError(f"the message {key.decode()} was not {state} within {_WAIT_SECONDS:g} s")


def ask(servers: str, *arguments: str) -> Callable[[], float]:
    """A question, which takes seconds. Raises `BenchmarkError` if the exit code is not that of an answer."""
    command = [sys.executable, "-m", "acker_cli", "status", _NAME, *arguments, "--bootstrap-servers", servers, "--json"]

    def run() -> float:
        began = time.monotonic()
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        seconds = time.monotonic() - began
        expected = "has no message" if "--key" in arguments and "NONE" in arguments else '"state"'
        if expected not in ended.stdout + ended.stderr:
            raise BenchmarkError(f"acker status {' '.join(arguments)}: {ended.stderr}{ended.stdout}")
        return seconds

    return run


def main() -> None:
    bench = Benchmark("message_status", __doc__, quick=f"one round with {_QUICK_MESSAGES:,} messages")
    bench.option("--messages", MESSAGES, quick=_QUICK_MESSAGES, help="in the source")
    bench.option("--rate", 0, help="messages that are written a second")
    given, built = bench.start(), topology()
    with broker() as topics:
        began = time.monotonic()
        fill(topics, built, given.messages)
        harness.say(f"{given.messages:,} messages and outcomes written in {time.monotonic() - began:,.0f} s")
        rows = measured(topics, built, given.messages, bench.rounds, given.rate)
    bench.publish(rows, settings={"partitions": PARTITIONS, "bytes": len(payloads()[0])})


def measured(topics: Topics, built: Topology, messages: int, rounds: int, rate: int) -> list[dict[str, Any]]:
    """A row for each question."""
    middle = random.Random(1).randrange(messages // 3, messages // 2)
    partition = crc32(key_of(middle)) % PARTITIONS
    with running(topics.kafka, built, rate):
        for state, key, value in (
            (State.DONE, b"ACKED", "ok"),
            (State.OPEN, b"HELD", "hold"),
            (State.WAITING, b"FAILED", "fail"),
        ):
            deliver(topics.kafka, state, key, value)
        questions = {
            "a recent key, done": ask(topics.servers, "--key", "ACKED"),
            "a recent key, open": ask(topics.servers, "--key", "HELD"),
            "a recent key, waiting for a retry": ask(topics.servers, "--key", "FAILED"),
            "a position in the middle": ask(topics.servers, "--offset", f"{partition}/{messages // PARTITIONS // 2}"),
            "the first position": ask(topics.servers, "--offset", f"{partition}/0"),
            "a key from the last percent": ask(topics.servers, "--key", key_of(messages - messages // 100).decode()),
            "a key from the middle": ask(topics.servers, "--key", key_of(middle).decode()),
            "the first key": ask(topics.servers, "--key", key_of(0).decode()),
            "a key that does not exist, --since 1m": ask(topics.servers, "--key", "NONE", "--since", "1m"),
            "a key that does not exist": ask(topics.servers, "--key", "NONE"),
        }
        results = harness.in_turn(questions, rounds)
    return [{"question": name, "seconds": Spread.of(of_name, 2)} for name, of_name in results.items()]


if __name__ == "__main__":
    main()
