"""The writes of a bolt in Spark, without Spark: no repeat, interruption or delay acks a tree too early."""

import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, get_args

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acker_worker.ledger import LedgerSettings
from spark_jobs import entries
from spark_jobs.entries import Record
from spark_jobs.inbox import InputAcks, PartitionRead, ack_unreported, records_of, send_reported_acks, unpack
from spark_jobs.packing import LARGEST, pack
from tests.ack_log import FoldedLog, acked_roots
from tests.manifests import manifest
from tests.packs import anchor_headers, packed, tuples_of, under_seed
from tests.spark.topologies import subscription
from tuple_tree.anchors import Edges, readable_roots
from tuple_tree.components import KEYED, BoltManifest, Grouping, SpoutManifest
from tuple_tree.manifest import Manifest
from tuple_tree.streams import StreamDeclaration, declare

PARTITIONS = 2
LEDGER = LedgerSettings(1_000, 600_000, 30_000)
LINES = declare({"line": str})
WORDS = declare({"word": str})
SINGLE = declare({"word": str}, codec="avro")

Transform = Callable[[Any], Any]


def topology(stream: StreamDeclaration = WORDS, grouping: Any = "fields") -> tuple[Manifest, BoltManifest]:
    """lines → split → count, and the bolt in the middle."""
    keys = ("word",) if grouping in KEYED else ()
    split = BoltManifest(name="split", streams=(stream,), subscriptions=(subscription("lines"),))
    count = BoltManifest(name="count", tasks=2, subscriptions=(subscription("split", grouping, *keys),))
    lines = SpoutManifest(name="lines", streams=(LINES,))
    return manifest(lines, split, count, topology="t", ack_partitions=PARTITIONS), split


def spark_batch(records: Sequence[tuple[bytes | None, list[tuple[str, bytes]]]]) -> Any:
    """Records of partition 0 in Spark's columns."""
    headers = [[{"key": name, "value": text} for name, text in each] for _, each in records]
    return pa.record_batch(
        {
            "key": pa.nulls(len(records), pa.binary()),
            "value": pa.array([value for value, _ in records], pa.binary()),
            "partition": pa.array([0] * len(records), pa.int32()),
            "offset": pa.array(range(len(records)), pa.int64()),
            "headers": pa.array(headers, pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        }
    )


def exploded(rows: Any) -> Any:
    """As `explode(split(line))`: none, one or several rows of each."""
    words = [(word, row) for row, line in enumerate(rows.column("line").to_pylist()) for word in line.split()]
    tracking = rows.column("_tracking").take(pa.array([row for _, row in words], pa.int64()))
    return pa.record_batch({"word": pa.array([word for word, _ in words], pa.string()), "_tracking": tracking})


def rows_of(records: Sequence[Record]) -> list[dict[str, Any]]:
    """Sent records as dictionaries with the names of Kafka's columns."""
    return [dict(zip(("topic", "partition", "key", "value", "headers"), record, strict=True)) for record in records]


def write_1(
    batch: Any, transform: Transform = exploded, to: tuple[Manifest, BoltManifest] | None = None, largest: int = LARGEST
) -> list[dict[str, Any]]:
    """The records of an attempt."""
    sent: list[Record] = []
    rows = list(unpack(*topology(), sent.extend, acks_of(0), lambda _partition, _read: None, iter([batch])))
    pack(*(to or topology()), sent.extend, map(transform, rows), largest)
    return rows_of(sent)


def acks_of(batch_id: int) -> InputAcks:
    return InputAcks(topology()[0], "split", bytes(range(16)), batch_id)


def write_2(*batches: Any, batch_id: int = 0) -> list[dict[str, Any]]:
    """The acks of what an attempt of write 1 has read."""
    reads: dict[int, PartitionRead] = {}
    sent: list[Record] = []
    list(unpack(*topology(), lambda _records: None, acks_of(batch_id), reads.__setitem__, iter(batches)))
    send_reported_acks(sent.extend, reads.values())
    return rows_of(sent)


def children(rows: Sequence[dict[str, Any]], stream: StreamDeclaration = WORDS) -> list[tuple[Any, Edges]]:
    return [
        each
        for row in rows
        if row["topic"] == "t.tuples.count"
        for each in tuples_of(row["value"], row["headers"], stream)
    ]


def folded(trees: Edges, rows: Sequence[dict[str, Any]]) -> FoldedLog:
    """The ack log with the inits of trees and the batches among these records."""
    log = FoldedLog(PARTITIONS, LEDGER)
    log.init(trees)
    for row in rows:
        if row["topic"] == "t.acks":
            log.append(row["partition"], row["value"])
    return log


BAD = "?"
"""A line whose pack cannot be decoded."""


def inbox(draw_lines: Sequence[str], rng: random.Random) -> tuple[Any, Edges, list[Edges]]:
    """Packs of lines; the trees that they begin, some of several lines, some lines of several trees."""
    trees: Edges = defaultdict(int)
    each: list[Edges] = []
    known: list[int] = []
    roots = []
    for _ in draw_lines:
        count = rng.choice([0, 1, 1, 1, 2])
        roots.append({rng.choice(known) if known and rng.random() < 0.3 else rng.getrandbits(64) for _ in range(count)})
        known += roots[-1]
    records = []
    begin = 0
    while begin < len(draw_lines):
        end = begin + rng.randint(1, 4)
        some = under_seed(roots[begin:end], rng.getrandbits(64))
        for edges in some:
            for root, edge in edges.items():
                trees[root] ^= edge
        each += some
        lines = draw_lines[begin:end]
        value = b"?" if BAD in lines else packed(LINES, *((line,) for line in lines))
        records.append((value, [*anchor_headers(some), ("source", b"lines/default")]))
        begin = end
    return spark_batch(records), dict(trees), each


@given(
    st.lists(st.sampled_from(["", "a", "a b", "b b b", "c a b", BAD]), min_size=1, max_size=8),
    st.integers(0, 2**32),
    st.data(),
)
def test_no_tree_is_acked_before_all_children_of_a_whole_attempt(lines: list[str], seed: int, data: Any) -> None:
    rng = random.Random(seed)
    batch, trees, _ = inbox(lines, rng)
    headers = [dict(record.headers) for record in records_of(batch) if record.value == b"?"]
    unreadable = {root for each in headers for root in readable_roots(each.get("anchors", b"")).tolist()}
    log = folded(trees, [])
    # Drivers, some of them zombies: write 1 is whole or cut off, and one that is whole is followed by write 2, whole or
    # cut off. They write at the same time.
    histories: list[list[dict[str, Any]]] = []
    whole: list[bool] = []
    for number in range(data.draw(st.integers(1, 3), "drivers")):
        first, second = write_1(batch), write_2(batch)
        rng.shuffle(first)
        whole.append(number == 0 or data.draw(st.booleans(), "whole"))
        if not data.draw(st.booleans(), "second whole"):
            second = second[: rng.randint(0, len(second))]
        histories.append([*first, *second] if whole[-1] else first[: rng.randint(0, len(first))])
    needed = [children(history) for history in histories]
    is_alone = [*map(len, histories)] == [len(write_1(batch)) + len(write_2(batch))]
    pending: list[Edges] = []
    done: set[tuple[int, int]] = set()
    while any(histories) or pending:
        if pending and (not any(histories) or rng.random() < 0.4):
            edges = pending.pop(rng.randrange(len(pending)))
            done |= {*edges.items()}
            acked = log.ack(edges)
        else:
            row = rng.choice([history for history in histories if history]).pop(0)
            acked = acked_roots(log.append(row["partition"], row["value"])) if row["topic"] == "t.acks" else set()
            pending += [edges for _, edges in children([row])]
        for root in acked:
            assert any(
                is_whole and all((root, edges[root]) in done for _, edges in tuples if root in edges)
                for is_whole, tuples in zip(whole, needed, strict=True)
            ), f"{root:x} is acked, and no attempt's children are all processed"
        assert not unreadable & acked
    if is_alone:
        assert log.acked == trees.keys() - unreadable
        assert unreadable <= log.failed.keys()


@pytest.mark.parametrize("stream", [WORDS, SINGLE], ids=["packs", "single records"])
@pytest.mark.parametrize("grouping", sorted({*get_args(Grouping)} - {"direct", "custom", "local"}))
def test_rows_arrive_and_trees_complete(stream: StreamDeclaration, grouping: str) -> None:
    rng = random.Random(7)
    lines = [" ".join(rng.choices("abcd", k=rng.randint(0, 5))) for _ in range(100)]
    batch, trees, _ = inbox(lines, rng)
    rows = write_1(batch, to=topology(stream, grouping))
    found = children(rows, stream)
    copies = 2 if grouping == "all" else 1
    assert sorted(word for (word,), _ in found) == sorted([word for line in lines for word in line.split()] * copies)
    if grouping == "fields":
        tasks = defaultdict(set)
        for row in rows:
            for (word,), _ in children([row], stream):
                tasks[word].add(row["partition"])
        assert {len(each) for each in tasks.values()} == {1}
    log = folded(trees, [*rows, *write_2(batch)])
    with_children = {root for _, edges in found for root in edges}
    assert log.acked == set(trees) - with_children
    for _, edges in found:
        log.ack(edges)
    assert log.acked == set(trees)


@pytest.fixture
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "ENTRIES", 100)


@pytest.mark.usefixtures("_small_batches")
def test_a_repeated_second_write_is_the_same() -> None:
    """Whether it is made of what write 1 has read or of what is read again, and however Spark divides the records."""
    batch, _, _ = inbox(["a b", BAD] * 200, random.Random(3))
    first = write_2(batch, batch_id=5)
    assert len(first) > PARTITIONS
    assert write_2(batch.slice(0, 90), batch.slice(90), batch_id=5) == first
    again: list[Record] = []
    inputs = batch.select(["partition", "headers"])
    ack_unreported(acks_of(5), again.extend, iter([inputs.slice(0, 77), inputs.slice(77)]))
    assert rows_of(again) == first


@pytest.mark.usefixtures("_small_batches")
def test_batches_of_an_attempt_count_in_any_order() -> None:
    batch, trees, _ = inbox(["a b"] * 400, random.Random(3))
    first = [row for row in write_1(batch) if row["topic"] == "t.acks"]
    assert len(first) > PARTITIONS
    assert not folded(trees, [*reversed(first), *write_2(batch)]).acked, "no child was processed"


def test_failed_rows_and_dead_letters_fail_their_trees_and_no_others() -> None:
    batch, trees, each = inbox(["good", "bad", "null"], random.Random(5))
    roots = [set(edges) for edges in each]

    def transform(rows: Any) -> Any:
        lines = rows.column("line")
        words = pa.array([None if line == "null" else line for line in lines.to_pylist()], pa.string())
        text = pa.array(["a bad line" if line == "bad" else None for line in lines.to_pylist()], pa.string())
        return pa.record_batch({"word": words, "_tracking": rows.column("_tracking"), "_fail": text})

    rows = [*write_1(batch, transform), *write_2(batch)]
    log = folded(trees, rows)
    for _, edges in children(rows):
        log.ack(edges)
    failed = roots[1] | roots[2]
    assert set(log.failed) == failed
    assert log.acked == set(trees) - failed


GOOD, ANCHORS = packed(LINES, ("a",)), anchor_headers([{11: 5}])
SOURCE = ("source", b"lines/default")


@pytest.mark.parametrize(
    ("reason", "value", "headers"),
    [
        ("bad-payload", b"?", [*ANCHORS, SOURCE]),
        ("no-payload", None, [*ANCHORS, SOURCE]),
        ("no-source", GOOD, ANCHORS),
        ("unknown-source", GOOD, [*ANCHORS, ("source", b"other/default")]),
        ("ragged-anchors", GOOD, [("anchors", bytes(21)), SOURCE]),
    ],
)
def test_unreadable_records_are_dead_letters_and_fail_their_trees(reason: str, value: Any, headers: Any) -> None:
    batch = spark_batch([(value, headers)])
    rows = write_1(batch)
    assert children(rows) == []
    (letter,) = [row for row in rows if row["topic"] == "t.dead-letters"]
    found = dict(letter["headers"])
    assert (found["dead-letter.reason"], found["dead-letter.by"]) == (reason.encode(), b"split/0")
    log = folded({11: 5, 0: 9}, [*rows, *write_2(batch)])
    assert not log.acked
    assert set(log.failed) == ({11} if reason != "ragged-anchors" else {0})


def test_a_message_too_large_for_a_record_is_a_dead_letter() -> None:
    batch, trees, each = inbox(["a " * 3, "b" * 5_000], random.Random(3))
    rows = write_1(batch, largest=4_000)
    (letter,) = [row for row in rows if row["topic"] == "t.dead-letters"]
    assert b"takes 5" in dict(letter["headers"])["dead-letter.detail"]
    assert {word for (word,), _ in children(rows)} == {"a"}
    assert set(folded(trees, rows).failed) == set(each[1])
