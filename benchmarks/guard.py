"""Whether something has become much slower than it was: ratios of two speeds of one run, never a time.

    python -m benchmarks.guard

Each check runs two sides in turn, in this process, and takes the median of the ratios of such pairs. Speeds are by CPU
time, which load from other programs hardly changes. A floor lies about a quarter below what was measured, and below all
that was seen on a busy machine: a loss of 30 % falls below it, and noise does not. (The ledger against the dict is less
steady, 10 to 16, because the dict suffers more from full caches; there it takes 40 %.) A change that makes the *other*
side of a ratio faster sets a new floor. Ends with exit code 1 if a ratio is below its floor, and prints which.
"""

import argparse
import gc
import io
import json
import math
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

import fastavro
import fastavro.schema

from acker_worker.fold import LogRecord, PartitionFold
from acker_worker.ledger import warm_up
from benchmarks.ledger import BATCH, SETTINGS, SPOUT, Round, Window, dict_round, ledger_round
from benchmarks.topics import payloads
from spout_sdk import BasicBolt, BasicCollector, KafkaSpout, TopologyBuilder, Tuple, declare
from spout_sdk.bolts.bolt_task import BoltTask
from spout_sdk.records import MadeRecord, Sending, TaskEnvironment
from spout_sdk.statistics import Counters
from tuple_tree.anchors import AnchorColumns
from tuple_tree.edges import new_seed
from tuple_tree.ids import random_column
from tuple_tree.manifest import Guarantee
from tuple_tree.messages import encode_ack_batch, schema_directory
from tuple_tree.payloads import decode_tuples, encode_tuples, payload_codec

ROUNDS: Final = 9
PENDING: Final = 100_000
TURNS: Final = 200 * BATCH
SMALL: Final = 10  # entries of a small batch
TUPLES: Final = 20_000  # of a round of a bolt
LEDGER_FLOOR: Final = 4.4
"""30 % below 6.3, on a machine whose third-level cache (480 MiB) holds all of the dict; smaller caches give more."""
TRACKED_FLOOR: Final = 0.5
ARROW_FLOOR: Final = 0.38
STREAM: Final = declare({"payload": bytes})
READ: Final = 500  # tuples of a record, and between two turns of the loop
_SMALL_TURNS: Final = 2 * BATCH


@dataclass(frozen=True, slots=True)
class Check:
    """A ratio of two sides, `ours / other`, that has to be at least the floor."""

    name: str
    ours: Round
    other: Round
    floor: float

    def ratio(self) -> float:
        """The median of the pairs' ratios."""
        self.ours(), self.other()  # warms up
        return median(self.ours() / self.other() for _ in range(ROUNDS))


class NullSink:
    """Drops what it is sent, and reports it delivered at once."""

    def send(self, *_: Any) -> None:
        pass

    def send_reported(self, *record: *Sending) -> None:
        record[-1](None, None)

    def send_records(self, *_: Any) -> None:
        pass

    send_record = send_reported

    def in_flight(self) -> int:
        return 0

    def is_congested(self) -> bool:
        return False

    def flush_acks(self, _seconds: float) -> int:
        return 0


class Pass(BasicBolt):
    streams = (STREAM,)

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        collector.emit(tuple_.values)


def task_us(guarantee: Guarantee) -> float:
    """Microseconds of CPU time of a bolt's task a tuple, from prepared records to the ack batch, without Kafka."""
    builder = TopologyBuilder("micro", guarantee=guarantee)
    builder.set_spout("source", KafkaSpout("source", streams=(STREAM,)))
    builder.set_bolt("bolt", Pass).shuffle_grouping("source")
    builder.set_bolt("last", Pass).shuffle_grouping("bolt")
    task = BoltTask(builder.build(), "bolt", 0, TaskEnvironment(NullSink(), Counters(), time.monotonic, os.urandom))
    task.open_session()
    task.prepare()
    pack = encode_tuples(payload_codec(STREAM), [(payload,) for payload in payloads(READ)])

    def headers() -> list[Any]:
        """One anchor for each tuple, of other roots each time."""
        anchors = [] if guarantee == "at_most_once" else AnchorColumns(random_column(READ), None, new_seed()).headers()
        return [*anchors, ("source", b"source/default")]

    records = [MadeRecord("inbox", 0, offset, pack, headers()) for offset in range(TUPLES // READ)]
    gc.collect()
    began = time.process_time()
    for record in records:
        task.read(record)
        task.run(math.inf)
        task.tick(time.monotonic())
    task.flush()
    return (time.process_time() - began) / TUPLES * 1e6


def arrow_round() -> Round:
    """The library of packs alone: reads and writes the packs of a bolt's task."""
    codec = payload_codec(STREAM)
    pack = encode_tuples(codec, [(payload,) for payload in payloads(READ)])

    def run() -> float:
        began = time.process_time()
        for _ in range(TUPLES // READ):
            encode_tuples(codec, decode_tuples(codec, pack))
        return TUPLES / (time.process_time() - began)

    return run


def _log(window: Window, entries: int) -> tuple[list[LogRecord], int]:
    """A log of encoded batches of `entries` entries, and the number of records that open the window."""
    values = map(encode_ack_batch, window.batches(entries, SPOUT))
    return [LogRecord(offset, 1_000_000, value) for offset, value in enumerate(values)], -(-window.pending // BATCH)


def fold_round(window: Window, entries: int) -> Round:
    """The whole fold, from encoded batches to outcomes by spout."""
    records, opening = _log(window, entries)

    def run() -> float:
        fold = PartitionFold(0, 1, SETTINGS)
        fold.apply(records[:opening])
        began = time.process_time()
        fold.apply(records[opening:])
        seconds = time.process_time() - began
        if fold.counters.trees_acked != window.turns:
            raise RuntimeError(f"{fold.counters.trees_acked} trees were acked instead of {window.turns}")
        return 2 * window.turns / seconds

    return run


def avro_round(window: Window, entries: int) -> Round:
    """The library of the codec alone: the same batches, read as Avro."""
    records, opening = _log(window, entries)
    # Without the ten bytes before them, of Avro's single-object encoding.
    bodies = [(record.value or b"")[10:] for record in records[opening:]]
    whole = json.loads((schema_directory() / "ack_batch.avsc").read_text())
    # Batches without marks have the schema without their fields.
    fields = [each for each in whole["fields"] if not each["name"].startswith("mark")]
    schema = fastavro.parse_schema({**whole, "fields": fields})

    def run() -> float:
        began = time.process_time()
        for body in bodies:
            fastavro.schemaless_reader(io.BytesIO(body), schema, None)
        return 2 * window.turns / (time.process_time() - began)

    return run


def checks() -> Sequence[Check]:
    window, few = Window.drawn(PENDING, TURNS), Window.drawn(PENDING, _SMALL_TURNS)
    ledger, plain = (side(window, time.process_time) for side in (ledger_round, dict_round))
    read_as_avro = avro_round(few, SMALL)

    def tracked() -> float:
        return 1e6 / task_us("at_least_once")

    def untracked() -> float:
        return 1e6 / task_us("at_most_once")

    return (
        Check("ledger / plain dict", ledger, plain, LEDGER_FLOOR),
        Check("fold of full batches / ledger", fold_round(window, BATCH), ledger, 0.45),
        Check(f"fold of batches of {SMALL} / reading them as Avro", fold_round(few, SMALL), read_as_avro, 0.18),
        Check("a bolt's task, tracked / untracked", tracked, untracked, TRACKED_FLOOR),
        Check("a bolt's task, tracked / reading and writing its packs by Arrow", tracked, arrow_round(), ARROW_FLOOR),
    )


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    warm_up()
    held = True
    for check in checks():
        ratio = check.ratio()
        holds = ratio >= check.floor
        held &= holds
        print(f"{'ok  ' if holds else 'SLOW'} {check.name}: {ratio:.2f}, at least {check.floor:g}", flush=True)
    if not held:
        sys.exit(
            "A ratio has fallen below its floor: something on that path has become much slower. Compare with an "
            "earlier commit: python -m benchmarks.guard"
        )


if __name__ == "__main__":
    main()
