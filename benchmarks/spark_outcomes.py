"""How many outcomes a second the driver of a Spark spout writes, and their CPU time.

    python -m benchmarks.spark_outcomes
    python -m benchmarks.spark_outcomes --quick

There is no Spark in it: the messages of a source of four partitions have ended, all of them or each 33rd, and the
writer of a driver reads their keys and writes their records. `cpu_us` is the CPU time of the process for each outcome.
"""

import resource
import time
import uuid
from functools import partial
from typing import Any, Final

import numpy as np
from confluent_kafka import Producer

from benchmarks import harness
from benchmarks.harness import Spread
from benchmarks.topics import Topics, broker, payloads
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
    values = payloads()
    producer = Producer({**topics.kafka, "linger.ms": 20})
    for number in range(messages):
        producer.produce(_SOURCE, values[number % len(values)], f"ORDER-{number:07}"[-10:], number % _PARTITIONS)
        if number % 50_000 == 0:
            producer.flush()
    producer.flush()


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
    began, used = time.monotonic(), _cpu_seconds()
    writer.finish(600.0)
    writer.run()
    seconds, cpu = time.monotonic() - began, _cpu_seconds() - used
    assert outcomes.idle
    topics.delete(target)
    return {"rate": len(positions) / seconds, "cpu_us": cpu / len(positions) * 1_000_000}


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = harness.parser(__doc__, "one short round")
    parser.add_argument("--messages", type=int, help="of the source; 1,000,000 unless given")
    parser.add_argument("--rounds", type=int, help="3 unless given")
    given = parser.parse_args()
    messages = given.messages or (200_000 if given.quick else 1_000_000)
    rounds = given.rounds or (1 if given.quick else 3)
    host = harness.machine()
    with broker() as topics:
        fill(topics, messages)
        runs = {str(each): partial(measure, topics, messages, each) for each in _EACH}
        results = harness.in_turn(runs, rounds, shown=lambda result: f"{result['rate']:,.0f} outcomes/s")
    rows: list[dict[str, Any]] = [
        {
            "each": int(each),
            "rate": Spread.of([one["rate"] for one in of], 0),
            "cpu_us": Spread.of([one["cpu_us"] for one in of], 1),
        }
        for each, of in results.items()
    ]
    settings = {"messages": messages, "rounds": rounds, "partitions": _PARTITIONS}
    harness.publish("spark_outcomes", host, rows, settings, harness.directory(given))


if __name__ == "__main__":
    harness.run(main)
