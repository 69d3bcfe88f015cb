"""What it costs to serve many topologies with one `acker worker`.

    python -m benchmarks.topologies
    python -m benchmarks.topologies --rounds 5
    python -m benchmarks.topologies --quick

On an embedded broker: memory and processor time of the command with so many *idle* topologies of 8 ack partitions, and
how fast it works off the same number of ack batches when they lie in one *busy* topology, and when they are spread over
several, in turn. Each is a process of its own, and a fresh broker.
"""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
from confluent_kafka import Producer

from acker_worker.catalogue import Catalogue
from benchmarks import command
from benchmarks.ack_log import TIMEOUT_MS, smallest
from benchmarks.errors import BenchmarkError
from benchmarks.processes import cpu_seconds, resident_bytes, threads
from benchmarks.results import Spread, machine, publish, report
from local_kafka import LocalKafka
from tuple_tree.codec import encode_ack_batch
from tuple_tree.manifest import Manifest
from tuple_tree.messages import AckBatch, SpoutTask
from tuple_tree.names import acks_topic, notices_topic

IDLE: Final = (0, 1, 20, 50)
SPREAD: Final = (1, 4)
"""Over how many topologies the load is spread."""
BATCHES: Final = 48_000
"""Ack batches in all; as many with inits, as many with acks."""
ENTRIES: Final = 500
"""Of each batch."""
SETTLE_S: Final = 15.0
WATCH_S: Final = 20.0
PARTITIONS: Final = 8
_SHORTEST_S: Final = 0.9


def published(kafka: dict[str, Any], count: int) -> list[Manifest]:
    """Creates and publishes so many topologies."""
    catalogue = Catalogue(kafka)
    manifests = [smallest(f"bench-{number}", PARTITIONS) for number in range(count)]
    for manifest in manifests:
        catalogue.create_topics(manifest)
        catalogue.publish(manifest)
    return manifests


@contextmanager
def worker(servers: str, *options: str) -> Iterator["subprocess.Popen[str]"]:
    """The command that is measured."""
    command = [sys.executable, "-m", "acker_cli", "worker", "--json", "--bootstrap-servers", servers, *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            yield process
        finally:
            process.terminate()


def idle(topologies: int, watch_s: float) -> dict[str, Any]:
    """Memory in MB, threads, and the share of one processor, of a worker of so many idle topologies."""
    with LocalKafka() as broker:
        published({"bootstrap.servers": broker.bootstrap_servers}, topologies)
        with worker(broker.bootstrap_servers) as process:
            assert process.stdout is not None
            # What it says has to be read, or it would wait for that.
            threading.Thread(target=process.stdout.read, daemon=True).start()
            pause = threading.Event()
            pause.wait(SETTLE_S)
            before = cpu_seconds(process.pid)
            pause.wait(watch_s)
            used = cpu_seconds(process.pid) - before
            return {
                "comparison": "idle",
                "topologies": topologies,
                "megabytes": round(resident_bytes(process.pid) / 2**20, 1),
                "threads": threads(process.pid),
                "processors": round(used / watch_s, 4),
            }


def busy(topologies: int, batches: int) -> float:
    """Entries a second of a worker whose load is spread over so many topologies.

    From the first that it told to the last that it told before it was done.
    """
    with LocalKafka() as broker:
        kafka = {"bootstrap.servers": broker.bootstrap_servers}
        manifests = published(kafka, topologies)
        _fill(kafka, manifests, batches)
        wanted = 2 * (batches // topologies) * ENTRIES
        with worker(broker.bootstrap_servers) as process:
            assert process.stdout is not None
            done: dict[str, int] = {}
            looks: list[tuple[float, int]] = []
            for line in process.stdout:
                said = json.loads(line)
                done[said["topology"]] = said["entries"]
                if len(done) == topologies and min(done.values()) >= wanted:
                    break
                if sum(done.values()):
                    looks.append((time.monotonic(), sum(done.values())))
            else:
                raise BenchmarkError(f"the worker ended after {done} of {wanted} entries of each topology")
    # It tells twice a second: when it was done is not known, but what it had done when it told so.
    seconds = looks[-1][0] - looks[0][0] if looks else 0.0
    if seconds < _SHORTEST_S:
        raise BenchmarkError(f"{wanted * topologies:,} entries are too few to say anything: raise the batches")
    return (looks[-1][1] - looks[0][1]) / seconds


def _fill(kafka: dict[str, Any], manifests: list[Manifest], batches: int) -> None:
    """Writes batches of inits, and after them the acks that complete their trees."""
    producer = Producer({**kafka, "linger.ms": 20, "queue.buffering.max.kbytes": 200_000})
    random = np.random.default_rng(7)
    for number in range(batches // len(manifests)):
        if number % 1_000 == 0:
            producer.flush()  # half a gigabyte need not be held
        roots = random.integers(0, 2**61, ENTRIES, dtype=np.uint64) * np.uint64(PARTITIONS)
        values = random.integers(0, 2**64, ENTRIES, dtype=np.uint64)
        partition = number % PARTITIONS
        roots += np.uint64(partition)
        for manifest in manifests:
            spout = SpoutTask(notices_topic(manifest.topology, "spout"), 0, TIMEOUT_MS)
            inits = AckBatch("bench/0", bytes(16), 2 * number, spout=spout, init_roots=roots, init_vals=values)
            acks = AckBatch("bench/0", bytes(16), 2 * number + 1, ack_roots=roots, ack_vals=values)
            for batch in (inits, acks):
                producer.produce(acks_topic(manifest.topology), encode_ack_batch(batch), partition=partition)
                producer.poll(0)
    producer.flush()


def main() -> None:
    parser = command.parser(__doc__, "few topologies, one round")
    parser.add_argument("--rounds", type=int, help="of the busy ones; 3 unless given")
    given = parser.parse_args()
    host = machine()
    idles, watch_s, batches = ((0, 2), 3.0, BATCHES // 2) if given.quick else (IDLE, WATCH_S, BATCHES)
    rounds = given.rounds or (1 if given.quick else 3)
    rows = []
    for count in idles:
        print(f"{count} idle topologies …", file=sys.stderr, flush=True)
        rows.append(idle(count, watch_s))
    rates: dict[int, list[float]] = {count: [] for count in SPREAD}
    for _ in range(rounds):
        for count, found in rates.items():
            print(f"{2 * batches:,} batches in {count} topologies …", file=sys.stderr, flush=True)
            found.append(busy(count, batches))
    rows += [
        {"comparison": "busy", "topologies": count, "entries_per_s": Spread.of(found)} for count, found in rates.items()
    ]
    settings = {"ack_partitions": PARTITIONS, "batches": 2 * batches, "entries_a_batch": ENTRIES, "rounds": rounds}
    publish(report("topologies", host, rows, settings), command.directory(given))


if __name__ == "__main__":
    command.run(main)
