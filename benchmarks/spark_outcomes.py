"""How many outcomes a second the driver of a Spark spout writes, and their CPU time.

    python -m benchmarks.spark_outcomes
    python -m benchmarks.spark_outcomes --quick

There is no Spark in it: the messages of a source of four partitions have ended, all of them or each 33rd, and the
writer of a driver reads their keys and writes their records. `cpu_us` is the CPU time of the process for each outcome.
"""

import time
import uuid
from functools import partial
from itertools import cycle, islice
from typing import Final

import numpy as np

from benchmarks import harness
from benchmarks.harness import Benchmark
from benchmarks.topics import Record, Topics, broker, payloads
from spark_jobs.delivering import SourceRoots
from spark_jobs.outcome_writer import READER_SETTINGS, OutcomeWriter
from spark_jobs.outcomes import Outcomes
from spark_jobs.source_reader import SourceReader
from tuple_tree.components import OutcomesManifest, SpoutManifest
from tuple_tree.manifest import Manifest
from tuple_tree.messages import NoticeBatch
from tuple_tree.positions import OFFSET_BITS

_PARTITIONS: Final = 4
_SOURCE: Final = "spark-outcomes.source"
_EACH: Final = (1, 33)
_NOTICES: Final = 4_096  # outcomes of a notice batch


def fill(topics: Topics, messages: int) -> None:
    """Writes the messages: a key of 10 bytes, and a value of 100."""
    topics.create({_SOURCE: _PARTITIONS})
    numbered = enumerate(islice(cycle(payloads()), messages))
    keyed = ((f"ORDER-{number:07}"[-10:].encode(), number, value) for number, value in numbered)
    topics.write(
        _SOURCE, (Record(value, number % _PARTITIONS, key=key) for key, number, value in keyed), {"linger.ms": 20}
    )


def measure(topics: Topics, messages: int, each: int) -> dict[str, float]:
    """A round, in which each message of that number has ended."""
    target = f"spark-outcomes.{uuid.uuid4().hex[:6]}"
    topics.create({target: _PARTITIONS})
    roots = SourceRoots(0, 1, 2)
    outcomes = Outcomes(roots, messages, 3, 600.0, writes_outcomes=True)
    offsets = np.arange(0, messages // _PARTITIONS, each)
    positions = np.concatenate([number << OFFSET_BITS | offsets for number in range(_PARTITIONS)])
    outcomes.recovered(positions, 0)
    # By turns, as they are acked in a topology.
    acked = roots.roots(positions.reshape(_PARTITIONS, -1).T.ravel(), 0 * positions)
    for begin in range(0, len(acked), _NOTICES):
        outcomes.read(NoticeBatch(0, 0, acked_roots=acked[begin : begin + _NOTICES]))
    spout = SpoutManifest(name="orders", outcomes=OutcomesManifest(topic=target))
    manifest = Manifest.of(topology="spark-outcomes", components=(spout,), max_tree_age_ms=300_000)
    reader = SourceReader({**topics.kafka, **READER_SETTINGS}, _SOURCE, "spark-outcomes", "read_committed")
    writer = OutcomeWriter(manifest, "orders", OutcomesManifest(topic=target), outcomes, reader, topics.kafka)
    began, used = time.monotonic(), time.process_time()
    writer.finish(600.0)
    writer.run()
    seconds, cpu = time.monotonic() - began, time.process_time() - used
    assert outcomes.idle
    topics.delete(target)
    return {"outcomes_per_s": len(positions) / seconds, "cpu_us": cpu / len(positions) * 1_000_000}


def main() -> None:
    bench = Benchmark("spark_outcomes", __doc__, rounds=3)
    bench.option("--messages", 1_000_000, quick=200_000, help="of the source")
    given = bench.start()
    with broker() as topics:
        fill(topics, given.messages)
        runs = {each: partial(measure, topics, given.messages, each) for each in _EACH}
        results = harness.in_turn(runs, bench.rounds, shown="{0[outcomes_per_s]:,.0f} outcomes/s".format)
    rows = [{"each": each, **harness.spreads(rounds, 1)} for each, rounds in results.items()]
    bench.publish(rows, partitions=_PARTITIONS)


if __name__ == "__main__":
    harness.run(main)
