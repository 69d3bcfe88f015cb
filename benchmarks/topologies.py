"""What it costs to serve many topologies with one `acker worker`.

    python -m benchmarks.topologies --json

On an embedded broker: memory and processor time of the command with so many idle topologies of 8 ack partitions, and
how long it takes to work off the same number of ack batches when they lie in one topology, and when they are spread
over several. Each is a process of its own, and a fresh broker.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
from confluent_kafka import Producer

from acker_worker.catalogue import Catalogue
from benchmarks.ledger import machine
from local_kafka import LocalKafka
from tuple_tree.codec import encode_ack_batch
from tuple_tree.manifest import BoltManifest, Manifest, SpoutManifest, Subscription
from tuple_tree.messages import AckBatch, SpoutTask
from tuple_tree.names import acks_topic, notices_topic
from tuple_tree.streams import declare

IDLE: Final = (0, 1, 20, 50)
SPREAD: Final = (1, 4)
"""Over how many topologies the load is spread."""
BATCHES: Final = 8_000
"""Ack batches in all; as many with inits, as many with acks."""
ENTRIES: Final = 500
"""Of each batch."""
SETTLE_S: Final = 15.0
WATCH_S: Final = 20.0
PARTITIONS: Final = 8


def manifest_of(number: int) -> Manifest:
    """The smallest topology there is."""
    return Manifest.of(
        topology=f"bench-{number}",
        ack_partitions=PARTITIONS,
        max_tree_age_ms=3_000_000,
        components=(
            SpoutManifest(name="spout", streams=(declare(["word"]),), timeout_ms=300_000),
            BoltManifest(
                name="bolt", subscriptions=(Subscription(source="spout", stream="default", grouping="shuffle"),)
            ),
        ),
    )


def publish(kafka: dict[str, Any], count: int) -> list[Manifest]:
    """Creates and publishes so many topologies."""
    catalogue = Catalogue(kafka)
    manifests = [manifest_of(number) for number in range(count)]
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


def idle(topologies: int) -> dict[str, float]:
    """Memory in MB, threads, and the share of one processor, of a worker of so many idle topologies."""
    with LocalKafka() as broker:
        publish({"bootstrap.servers": broker.bootstrap_servers}, topologies)
        with worker(broker.bootstrap_servers) as process:
            assert process.stdout is not None
            # What it says has to be read, or it would wait for that.
            threading.Thread(target=process.stdout.read, daemon=True).start()
            pause = threading.Event()
            pause.wait(SETTLE_S)
            before = _processor_s(process.pid)
            pause.wait(WATCH_S)
            used = _processor_s(process.pid) - before
            status = Path(f"/proc/{process.pid}/status").read_text()
    numbers = {name: int(value) for name, value in re.findall(r"(VmRSS|Threads):\s+(\d+)", status)}
    return {
        "topologies": topologies,
        "megabytes": round(numbers["VmRSS"] / 1024, 1),
        "threads": numbers["Threads"],
        "processors": round(used / WATCH_S, 4),
    }


def _processor_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def busy(topologies: int) -> dict[str, float]:
    """Entries a second of a worker whose load is spread over so many topologies."""
    with LocalKafka() as broker:
        kafka = {"bootstrap.servers": broker.bootstrap_servers}
        manifests = publish(kafka, topologies)
        _fill(kafka, manifests)
        wanted = 2 * BATCHES // topologies * ENTRIES
        with worker(broker.bootstrap_servers) as process:
            assert process.stdout is not None
            began = 0.0
            done: dict[str, int] = {}
            for line in process.stdout:
                said = json.loads(line)
                done[said["topology"]] = said["entries"]
                began = began or (time.monotonic() if said["entries"] else 0.0)
                if len(done) == topologies and min(done.values()) >= wanted:
                    break
            seconds = time.monotonic() - began
    return {
        "topologies": topologies,
        "entries": wanted * topologies,
        "entries_per_second": round(wanted * topologies / seconds),
    }


def _fill(kafka: dict[str, Any], manifests: list[Manifest]) -> None:
    """Writes batches of inits, and after them the acks that complete their trees."""
    producer = Producer({**kafka, "linger.ms": 20, "queue.buffering.max.kbytes": 1_000_000})
    random = np.random.default_rng(7)
    for number in range(BATCHES // len(manifests)):
        roots = random.integers(0, 2**61, ENTRIES, dtype=np.uint64) * np.uint64(PARTITIONS)
        values = random.integers(0, 2**64, ENTRIES, dtype=np.uint64)
        partition = number % PARTITIONS
        roots += np.uint64(partition)
        for manifest in manifests:
            spout = SpoutTask(notices_topic(manifest.topology, "spout"), 0, 300_000)
            inits = AckBatch("bench/0", bytes(16), 2 * number, spout=spout, init_roots=roots, init_vals=values)
            acks = AckBatch("bench/0", bytes(16), 2 * number + 1, ack_roots=roots, ack_vals=values)
            for batch in (inits, acks):
                producer.produce(acks_topic(manifest.topology), encode_ack_batch(batch), partition=partition)
                producer.poll(0)
    producer.flush()


def run(say: Callable[[str], None]) -> dict[str, Any]:
    """All of it."""
    idles, loads = [], []
    for count in IDLE:
        say(f"{count} idle topologies …")
        idles.append(idle(count))
    for count in SPREAD:
        say(f"{2 * BATCHES:,} batches in {count} topologies …")
        loads.append(busy(count))
    return {"benchmark": "topologies", **machine(), "idle": idles, "busy": loads}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object, nothing else, on stdout")
    given = parser.parse_args()
    report = run(lambda text: print(text, file=sys.stderr, flush=True))
    if given.json:
        print(json.dumps(report, indent=2))
        return
    for one in report["idle"]:
        print(
            f"{one['topologies']:>4} idle: {one['megabytes']:.0f} MB, {one['threads']} threads, "
            f"{100 * one['processors']:.1f} % of a processor"
        )
    for one in report["busy"]:
        print(f"{one['topologies']:>4} busy: {one['entries_per_second'] / 1e6:.2f} M entries/s")


if __name__ == "__main__":
    main()
