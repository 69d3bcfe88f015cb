"""The restore of a state by one process: from its changelog into memory or onto disk, and again on the same disk.

    python -m benchmarks.state
    python -m benchmarks.state --keys 200000 --large 0
    python -m benchmarks.state --quick

The changelog of a bolt with four tasks is filled, with a record for each key. Then new processes restore it, one after
another, each all four tasks, as a process of the bolt does before it executes. `seconds` are from opening the stores to
the end of the restore; the start of Python and the join of the group are not in it. `same disk` opens the stores that
the process before has left. Memory is the growth of the resident memory of the process, `peak` its highest.
"""

import multiprocessing
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from benchmarks import harness
from benchmarks.harness import Benchmark, BenchmarkError
from benchmarks.processes import resident_bytes
from benchmarks.topics import Record, Topics, broker
from spout_sdk import KafkaSpout, Topology, TopologyBuilder, Tuple, declare
from spout_sdk.state import StatefulBolt
from spout_sdk.state.restore import Restorer
from tuple_tree.names import state_topic
from tuple_tree.routing import fields_task
from tuple_tree.state_records import ABOUT_KEY, About

TASKS: Final = 4
_BOLT: Final = "totals"
_STORES: Final = ("memory", "disk", "same disk")


class Totals(StatefulBolt):
    """The state that is restored."""

    state = {"orders": int, "cents": int}

    def update(self, total: dict[str, int], tuple_: Tuple) -> dict[str, int]:
        return {"orders": total["orders"] + 1, "cents": total["cents"] + tuple_["cents"]}


def topology(name: str) -> Topology:
    """A bolt with a state after a spout."""
    builder = TopologyBuilder(name)
    orders = declare({"customer": str, "cents": int})
    builder.set_spout("orders", KafkaSpout(f"{name}.source", streams=[orders]))
    builder.set_bolt(_BOLT, Totals, tasks=TASKS).fields_grouping("orders", "customer")
    return builder.build()


def fill(topics: Topics, name: str, keys: int) -> None:
    """Creates the topics of a topology, and fills its changelog."""
    built = topology(name)
    topics.create({f"{name}.source": 1})
    topics.create_for(built.manifest)

    def records() -> Iterator[Record]:
        about = About.of(built.manifest, _BOLT).to_json()
        for task in range(TASKS):
            yield Record(about, task, key=ABOUT_KEY)
        for number in range(keys):
            key = b"customer-%09d" % number
            yield Record(b'{"orders":%d,"cents":%d}' % (number % 100, number), fields_task(key, TASKS), key=key)

    topics.write(state_topic(name, _BOLT), records())


def restore(kafka: dict[str, Any], name: str, keys: int, directory: str | None) -> dict[str, float]:
    """Restores the tasks in this process; returns its figures. Raises `BenchmarkError` if keys are missing."""
    built = topology(name)
    before, began = resident_bytes(), time.monotonic()
    restorer = Restorer(built, _BOLT, kafka, None if directory is None else Path(directory))
    stores = {task: restorer.open(task) for task in range(TASKS)}
    restorer.restore(stores)
    seconds = time.monotonic() - began
    restorer.close()
    figures = {
        "seconds": seconds,
        "keys_per_s": keys / seconds,
        "memory_bytes_per_key": (resident_bytes() - before) / keys,
        "peak_mb": resident_bytes(peak=True) / 1e6,
    }
    if directory is not None:
        figures["disk_bytes_per_key"] = sum(store.size_bytes for store in stores.values()) / keys
    restored = sum(map(len, stores.values()))
    for store in stores.values():
        store.close()
    if restored != keys:
        raise BenchmarkError(f"{restored:,} keys of {keys:,} were restored: this measures nothing")
    return figures


def measured(topics: Topics, name: str, keys: int, directory: Path, store: str) -> dict[str, float]:
    """The figures of a new process; `same disk` is to follow `disk`."""
    if store == "disk":
        shutil.rmtree(directory, ignore_errors=True)
    on_disk = None if store == "memory" else str(directory)
    with multiprocessing.get_context("spawn").Pool(1) as process:
        return process.apply(restore, (topics.kafka, name, keys, on_disk))


def main() -> None:
    bench = Benchmark("state", __doc__, quick="one round with few keys", rounds=3)
    bench.option("--keys", 1_000_000, quick=20_000, help="of the state that is restored into memory and onto disk")
    bench.option(
        "--large", 10_000_000, quick=0, help="keys of the state that is restored onto disk only; 0 leaves it out"
    )
    given, rows = bench.start(), list[dict[str, Any]]()
    with tempfile.TemporaryDirectory(prefix="state-") as directory, broker() as topics:
        for keys, kinds in {given.keys: _STORES, given.large: _STORES[1:]}.items():
            if keys:
                name, stores = f"state-{keys}", Path(directory, str(keys))
                harness.say(f"fills the changelog with {keys:,} keys")
                fill(topics, name, keys)
                # In this order, not in turn: each needs what the one before has left.
                rounds = [
                    {kind: measured(topics, name, keys, stores, kind) for kind in kinds} for _ in range(bench.rounds)
                ]
                for kind in kinds:
                    figures = harness.spreads([each[kind] for each in rounds], 3)
                    rows.append({"store": kind, "keys": keys, "tasks": TASKS, **figures})
    bench.publish(rows)


if __name__ == "__main__":
    harness.run(main)
