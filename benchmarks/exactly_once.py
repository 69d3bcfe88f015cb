"""What the guarantees cost: a bolt's throughput, and what a tuple takes through two bolts, with each of the three.

    python -m benchmarks.exactly_once
    python -m benchmarks.exactly_once --messages 500000 --rate 20 --rate 500 --seconds 30
    python -m benchmarks.exactly_once --quick

Throughput is that of one process of a bolt that reads a full inbox, emits a tuple for each input and acks it, until all
tuples and acks have arrived at the broker, and with exactly_once are committed. Latency is that of a whole topology,
spout, two bolts and acker, at a low rate: from the emit of the spout to the execute of the second bolt (delivery), and
to the ack at the spout (complete).
"""

import itertools
import json
import os
import tempfile
import threading
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, get_args

from confluent_kafka import Producer

from acker_cli.processes.acker_pool import AckerPool
from acker_cli.processes.acker_process import AckerLaunch
from benchmarks import command
from benchmarks.broker_topics import ArrivedTuples, tracked_headers, untracked_headers
from benchmarks.errors import BenchmarkError
from benchmarks.results import Spread, machine, publish, report
from kafka_clients.catalogue import Catalogue
from local_kafka import LocalKafka
from spout_sdk import (
    BasicBolt,
    BasicCollector,
    ComponentRunner,
    LatencyHistogram,
    Spout,
    SpoutCollector,
    TaskContext,
    Topology,
    TopologyBuilder,
    TopologyRunner,
    Tuple,
    declare,
)
from tuple_tree.manifest import Guarantee
from tuple_tree.names import tuples_topic
from tuple_tree.packs import MAX_ROWS
from tuple_tree.payloads import encode_tuples, payload_codec

NAME: Final = "EXACTLY_ONCE_BENCHMARK"
GUARANTEE: Final = "EXACTLY_ONCE_BENCHMARK_GUARANTEE"
RATE: Final = "EXACTLY_ONCE_BENCHMARK_RATE"
DIRECTORY: Final = "EXACTLY_ONCE_BENCHMARK_DIRECTORY"

GUARANTEES: Final[tuple[Guarantee, ...]] = get_args(Guarantee)
_MILLIS: Final = 1000


class Clocked(Spout):
    """Emits the time, so many times a second."""

    streams = (declare({"at": float, "text": str}),)

    def open(self, _context: TaskContext, collector: SpoutCollector) -> None:
        """Begins now."""
        self.collector = collector
        self.every = 1 / float(os.environ[RATE])
        self.next = time.monotonic()

    def next_tuple(self) -> None:
        """Emits if it is time to."""
        if time.monotonic() >= self.next:
            self.next += self.every
            self.collector.emit((time.time(), "a line of text"), message_id=self.next)


class Transform(BasicBolt):
    """A tuple for each input."""

    streams = Clocked.streams

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        """Emits it in capitals."""
        collector.emit((tuple_[0], tuple_[1].upper()))


class Arrivals(BasicBolt):
    """Notes how long tuples took."""

    def prepare(self, _context: TaskContext) -> None:
        """Begins with none."""
        self.latency = LatencyHistogram()

    def execute(self, tuple_: Tuple, _collector: BasicCollector) -> None:
        """Notes it."""
        self.latency.record(time.time() - tuple_[0])

    def cleanup(self) -> None:
        """Writes it down."""
        Path(os.environ[DIRECTORY], uuid.uuid4().hex).write_text(json.dumps(dict(self.latency.counts)))


def topology() -> Topology:
    """Clocked → transform → arrivals."""
    guarantee: Any = os.environ[GUARANTEE]
    builder = TopologyBuilder(os.environ[NAME], guarantee=guarantee, message_timeout=120)
    builder.set_spout("clocked", Clocked)
    builder.set_bolt("transform", Transform).shuffle_grouping("clocked")
    builder.set_bolt("arrivals", Arrivals).shuffle_grouping("transform")
    return builder.build()


def prepared(kafka: Mapping[str, Any], guarantee: Guarantee) -> Topology:
    """A topology of a new name, with its topics."""
    os.environ[NAME] = f"{guarantee.replace('_', '-')}-{uuid.uuid4().hex[:8]}"
    os.environ[GUARANTEE] = guarantee
    built = topology()
    catalogue = Catalogue(kafka)
    catalogue.create_topics(built.manifest)
    catalogue.publish(built.manifest)
    return built


def fill(kafka: Mapping[str, Any], built: Topology, messages: int) -> None:
    """Fills the inbox of `transform` with packs."""
    topic, source = tuples_topic(built.name, "transform"), b"clocked/default"
    codec = payload_codec(built.manifest.stream("clocked", "default"))
    producer = Producer({**kafka, "queue.buffering.max.messages": 10_000_000, "compression.type": "lz4"})
    left = itertools.chain(itertools.repeat(MAX_ROWS, messages // MAX_ROWS), [messages % MAX_ROWS])
    for tuples in filter(None, left):
        headers = tracked_headers(source, tuples) if built.manifest.acking else untracked_headers(source)
        producer.produce(
            topic, encode_tuples(codec, [(1.0, "a line of text")] * tuples), partition=0, headers=headers()
        )
    if producer.flush(300):
        raise BenchmarkError("the inbox could not be filled")


def throughput(kafka: Mapping[str, Any], guarantee: Guarantee, messages: int) -> float:
    """Tuples a second of one process, from its first execute until all that it sent has arrived, and may be read."""
    built = prepared(kafka, guarantee)
    fill(kafka, built, messages)
    runner = ComponentRunner(built, "transform", kafka)
    thread = threading.Thread(target=runner.run)
    outputs = built.manifest.stream("transform", "default")
    arrived = ArrivedTuples(kafka, tuples_topic(built.name, "arrivals"), outputs)

    def is_done() -> bool:
        stats = runner.stats
        if stats.executed < messages or stats.pending:
            return False
        # With exactly_once, what may be read is committed. Else offsets are committed before or once a second: that
        # is no part of the work.
        return arrived.count() >= messages

    thread.start()
    # The first record is all that is missed here.
    while not runner.stats.executed:
        time.sleep(0.001)
    start = time.monotonic()
    while not is_done():
        time.sleep(0.005)
        if not thread.is_alive():
            raise BenchmarkError(f"{guarantee}: transform ended before it was done")
    seconds = time.monotonic() - start
    runner.stop()
    thread.join()
    arrived.close()
    return messages / seconds


def latency(kafka: Mapping[str, Any], guarantee: Guarantee, rate: float, seconds: float) -> dict[str, Any]:
    """Latencies in milliseconds of a topology that is given `rate` tuples a second for so many seconds."""
    built = prepared(kafka, guarantee)
    os.environ[RATE] = str(rate)
    launch = AckerLaunch(built.name, kafka, {}, "error")
    with tempfile.TemporaryDirectory() as directory, AckerPool(launch, int(built.manifest.acking)) as ackers:
        os.environ[DIRECTORY] = directory
        with TopologyRunner("benchmarks.exactly_once:topology", kafka) as runner:
            if not runner.wait_ready(120):
                raise BenchmarkError(f"{guarantee}: the topology did not start")
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline:
                ackers.check()
                time.sleep(0.25)
        delivery = LatencyHistogram()
        for file in Path(directory).iterdir():
            delivery.merge(LatencyHistogram({int(key): count for key, count in json.loads(file.read_text()).items()}))
        spout = runner.stats()["clocked"]
    return {
        "rate": rate,
        "tuples": spout.emitted,
        "delivery_ms": _quantiles(delivery),
        "complete_ms": _quantiles(spout.complete_latency) if built.manifest.acking else None,
        "failed": dict(spout.failed),
    }


def _quantiles(histogram: LatencyHistogram) -> dict[str, float]:
    return {f"p{round(100 * q)}": round(histogram.quantile(q) * _MILLIS, 1) for q in (0.5, 0.99)}


def main() -> None:
    parser = command.parser(__doc__, "few messages, one round, short runs")
    parser.add_argument("--messages", type=int, help="inputs of the throughput runs; 200,000 unless given")
    parser.add_argument("--rounds", type=int, help="throughput runs of each guarantee; 3 unless given")
    parser.add_argument("--seconds", type=float, help="length of each latency run; 15 unless given")
    parser.add_argument(
        "--rate", type=float, action="append", help="tuples a second; may be repeated; 20 and 500 unless given"
    )
    given = parser.parse_args()
    messages = given.messages or (20_000 if given.quick else 200_000)
    rounds = given.rounds or (1 if given.quick else 3)
    seconds = given.seconds or (5.0 if given.quick else 15.0)
    host = machine()
    with LocalKafka(jvm="server", heap="1g") as broker:
        kafka = {"bootstrap.servers": broker.bootstrap_servers}
        rates: dict[str, list[float]] = {guarantee: [] for guarantee in GUARANTEES}
        # In turns, so that what else the machine does hits all alike.
        for _ in range(rounds):
            for guarantee in GUARANTEES:
                rates[guarantee].append(throughput(kafka, guarantee, messages))
        rows: list[dict[str, Any]] = [
            {"comparison": "throughput", "guarantee": guarantee, "tuples_per_s": Spread.of(rates[guarantee])}
            for guarantee in GUARANTEES
        ]
        for rate in given.rate or ([20] if given.quick else [20, 500]):
            rows += [
                {"comparison": "latency", "guarantee": guarantee, **latency(kafka, guarantee, rate, seconds)}
                for guarantee in GUARANTEES
            ]
    base = Spread.of(rates["at_most_once"]).median
    ratios = {
        f"{guarantee} to at_most_once": round(Spread.of(rates[guarantee]).median / base, 3)
        for guarantee in ("at_least_once", "exactly_once")
    }
    settings = {"messages": messages, "rounds": rounds, "seconds_of_latency": seconds}
    publish(report("exactly_once", host, rows, settings, ratios=ratios), command.directory(given))


if __name__ == "__main__":
    command.run(main)
