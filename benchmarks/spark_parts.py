"""Nanoseconds a row of the Python of Spark jobs, part by part, without Spark and Kafka.

    python -m benchmarks.spark_parts
    python -m benchmarks.spark_parts --quick

What executors and drivers run is called with columns as Spark hands them over, so what is timed is our Python and
nothing else: CPU time of this process, the median of several rounds.

- `unpack`, `pack`, `input_acks`: an executor of a bolt, over packs of 250 tuples, grouped by shuffle and by a field.
- `deliver`: an executor of a spout, over messages, inits included, without the time to send them.
- `outcomes`: the driver of a spout: a message is opened, and its ack is read.
"""

import time
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa

from benchmarks import command
from benchmarks.results import Spread, machine, publish, report, versions
from benchmarks.spark import LINE, PACK, TEXT
from spark_jobs.delivering import Deliver, Messages, SourceRange
from spark_jobs.entries import AckLog
from spark_jobs.frames import StreamFrame
from spark_jobs.input_acks import InputAcks
from spark_jobs.outcomes import Outcomes
from spark_jobs.packing import Outputs, Pack
from spark_jobs.records_in import Sources
from spark_jobs.unpacking import Unpack
from tuple_tree.anchors import anchor_headers
from tuple_tree.codec import decode_notice_batch, encode_notice_batch
from tuple_tree.ids import random_ids
from tuple_tree.manifest import Grouping, Subscription
from tuple_tree.messages import NoticeBatch, SpoutAddress
from tuple_tree.payloads import encode_tuples, payload_codec
from tuple_tree.positions import topic_key
from tuple_tree.source_positions import SourcePositions
from tuple_tree.streams import Stream, declare

_LOG: Final = AckLog("t.acks", 8)
_SOURCES: Final = Sources("work", {"lines/default": StreamFrame(LINE)}, acking=True)
_KEY: Final = topic_key("GHbxwU_dQ5eLMDKfVpT7Vg")
_NOTICES: Final = 4_096
_MESSAGES: Final = Messages(StreamFrame(declare("line")), "value", 0, _KEY, _LOG.partitions)
_HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def outputs(stream: Stream, grouping: Grouping) -> Outputs:
    fields = stream.field_names[:1] if grouping == "fields" else ()
    subscription = Subscription(source="work", stream="default", grouping=grouping, fields=fields)
    return Outputs("t", "work", {"default": (StreamFrame(stream), [("end", 8, subscription)])}, _LOG)


def records(rows: int) -> Any:
    """An inbox of packs, as Spark reads it."""
    codec, next_id = payload_codec(LINE), random_ids().__next__
    values, headers = [], []
    for begin in range(0, rows, PACK):
        numbers = range(begin, begin + PACK)
        values.append(encode_tuples(codec, [(f"{TEXT}{number}", number) for number in numbers]))
        named = [*anchor_headers([{next_id(): next_id()} for _ in numbers]), ("source", b"lines/default")]
        headers.append([{"key": name, "value": value} for name, value in named])
    return _kafkas(values, headers)


def messages(rows: int) -> Any:
    """A source of single messages, as Spark reads it."""
    return _kafkas([f"{TEXT}{number}".encode() for number in range(rows)], [None] * rows)


def _kafkas(values: list[bytes], headers: list[Any]) -> Any:
    size = len(values)
    return pa.record_batch(
        {
            "key": pa.nulls(size, pa.binary()),
            "value": pa.array(values, pa.binary()),
            "topic": pa.repeat("source", size),
            "partition": pa.repeat(pa.scalar(0, pa.int32()), size),
            "offset": pa.array(range(size), pa.int64()),
            "headers": pa.array(headers, _HEADERS),
        }
    )


def timed(work: Callable[[], object], rows: int, rounds: int) -> Spread:
    """Nanoseconds of CPU time a row; the first round does not count."""
    found = []
    for _ in range(1 + rounds):
        began = time.process_time()
        work()
        found.append((time.process_time() - began) / rows * 1e9)
    return Spread.of(found[1:])


def drained(made: Any) -> None:
    for _ in made:
        pass


def outcomes(rows: int) -> Callable[[], None]:
    """The life of so many messages on the driver."""
    offsets = np.arange(rows)
    roots = _MESSAGES.roots(0, offsets, np.zeros(rows, np.int64))
    notices = [
        encode_notice_batch(NoticeBatch(0, 0, acked_roots=roots[begin : begin + _NOTICES]))
        for begin in range(0, rows, _NOTICES)
    ]

    def work() -> None:
        books = Outcomes(SourcePositions(1_000.0, 0.0), 0, _KEY, _LOG.partitions, 2 * rows)
        with books.writing(rows, lambda: 0, lambda: False) as found:
            found.append(SourceRange(0, offsets, np.empty(0, np.int64), rows))
        for notice in notices:
            books.read(decode_notice_batch(notice))
        assert books.acked == rows

    return work


def measure(rows: int, rounds: int) -> list[dict[str, Any]]:
    inbox, source = records(rows), messages(rows)
    unpacked = list(Unpack(_SOURCES)(iter([inbox.select(["value", "headers"])])))
    deliver = Deliver(
        outputs(_MESSAGES.frame.stream, "shuffle"),
        _MESSAGES,
        SpoutAddress("t.notices.work", 0, 30_000),
        lambda _records: None,
        lambda _found: None,
    )
    parts: dict[str, Callable[[], object]] = {
        "unpack": lambda: drained(Unpack(_SOURCES)(iter([inbox.select(["value", "headers"])]))),
        "pack, shuffle": lambda: drained(Pack(outputs(LINE, "shuffle"))(iter(unpacked))),
        "pack, fields": lambda: drained(Pack(outputs(LINE, "fields"))(iter(unpacked))),
        "input_acks": lambda: drained(
            InputAcks("t", "t.tuples.work", _SOURCES, _LOG, bytes(range(16)), 0)(iter([inbox]))
        ),
        "deliver": lambda: drained(deliver(iter([source]))),
        "outcomes": outcomes(rows),
    }
    return [{"part": name, "ns_a_row": timed(work, rows, rounds)} for name, work in parts.items()]


def main() -> None:
    parser = command.parser(__doc__, "few rows, one round")
    parser.add_argument("--rows", type=int, help="of each part; 200,000 unless given")
    parser.add_argument("--rounds", type=int, help="5 unless given, after one that does not count")
    given = parser.parse_args()
    rows = given.rows or (20_000 if given.quick else 200_000)
    rounds = given.rounds or (1 if given.quick else 5)
    host = machine()
    sizes = {"rows": rows, "rounds": rounds, "pack": PACK, "notices": _NOTICES}
    found = report("spark_parts", host, measure(rows, rounds), sizes, versions("pyarrow", "numpy"), {})
    publish(found, command.directory(given))


if __name__ == "__main__":
    command.run(main)
