"""The writes of a spout in Spark, without Spark: no retry, interruption or delay acks a tree too early."""

import pickle
import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs import packing
from spark_jobs.delivering import ATTEMPT, FIELD, GIVEN_UP, NOTHING, Delivered, together
from spark_jobs.emit import emit_rows
from spark_jobs.entries import Record
from spark_jobs.errors import SparkJobError
from tests.ack_log import FoldedLog, acked_roots
from tests.packs import packed, tuples_of
from tests.unit.spark.spout_model import (
    PAIRS,
    Copy,
    Trees,
    attempt,
    deliver,
    delivered,
    messages,
    of_topics,
    root_of,
    topology,
)
from tests.unit.spark.test_two_writes import LEDGER, LINES, PARTITIONS
from tuple_tree.components import Grouping
from tuple_tree.messages import decode_ack_batch
from tuple_tree.payloads import encode_tuples, payload_codec
from tuple_tree.positions import MAX_OFFSET
from tuple_tree.streams import StreamDeclaration, declare


@given(st.integers(1, 3), st.integers(0, 2**32), st.data())
def test_no_tree_is_acked_before_its_message_is_processed(count: int, seed: int, data: Any) -> None:
    """Attempts of tasks, re-runs and zombies write concurrently, and any may be interrupted."""
    rng = random.Random(seed)
    values = [f"line {number}".encode() for number in range(count)]
    chunk, packing._CHUNK = packing._CHUNK, 0  # type: ignore[misc]
    try:
        attempts = [attempt(values, rng) for _ in range(data.draw(st.integers(1, 4), "attempts"))]
    finally:
        packing._CHUNK = chunk  # type: ignore[misc]
    attempts = [
        steps if number == 0 or data.draw(st.booleans(), "whole") else steps[: rng.randint(0, len(steps))]
        for number, steps in enumerate(attempts)
    ]
    log = FoldedLog(PARTITIONS, LEDGER)
    trees = Trees(log, rng)
    for _ in range(60 * count):
        running = [steps for steps in attempts if steps]
        if running and rng.random() < 0.2:
            kind, what = rng.choice(running).pop(0)
            acked: set[int] = set()
            if kind == "init":
                acked = acked_roots(log.append(what[1], what[3]))
            else:
                for _, edges in tuples_of(what["value"], what["headers"], LINES):
                    trees.copies += [Copy(root, edge) for root, edge in edges.items()]
        else:
            acked = trees.act()
        for root in acked:
            assert trees.processed(root), f"{root:x} is acked, and no copy of its message was processed"


def test_inits_come_before_their_tuples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "_CHUNK", 0)
    begun: set[int] = set()
    tuples = 0
    for kind, what in attempt([b"line"] * 4_000, random.Random(1)):
        if kind == "init":
            begun |= set(decode_ack_batch(what[3]).init_roots.tolist())
        else:
            for _, edges in tuples_of(what["value"], what["headers"], LINES):
                assert edges.keys() <= begun
                tuples += 1
        # Otherwise all would wait for the end of the task.
        assert tuples or len(begun) <= 2_000
    assert (tuples, len(begun)) == (4_000, 4_000)


def test_a_second_init_of_a_tree_that_failed_completes_nothing() -> None:
    """A bolt in Spark wrote the children of the first copy before the tree failed, and acks its input after it."""
    rng = random.Random(1)
    log = FoldedLog(PARTITIONS, LEDGER)
    (_, first), (_, row) = attempt([b"line"], rng)
    log.append(first[1], first[3])
    ((_, edges),) = tuples_of(row["value"], row["headers"], LINES)
    root, edge = root_of(0), edges[root_of(0)]
    assert not log.ack({root: 77}), "of a child"
    log.send(root, fails=[root])
    assert root in log.failed
    (_, again), _ = attempt([b"line"], rng)
    log.append(again[1], again[3])
    assert not log.ack({root: edge}), "the child was not processed"


@pytest.mark.parametrize(
    ("codec", "grouping"),
    [
        ("arrow", "fields"),
        *(pytest.param(*each, marks=pytest.mark.exhaustive) for each in (("arrow", "all"), ("avro", "all"))),
        ("json", "shuffle"),
    ],
)
def test_messages_arrive_and_trees_complete(codec: Any, grouping: Grouping) -> None:
    stream = declare({"line": str}, codec=codec)
    values = [f"line {number % 50}".encode() for number in range(1_500)]
    bolts: list[tuple[str, Grouping]] = [("count", grouping), ("other", "global")]
    batches = messages(values[:1000]), messages(values[1000:], 1000 + 500)
    made = delivered(*batches, stream=stream, bolts=bolts)
    copies = 3 if grouping == "all" else 2
    found = made.tuples(stream)
    assert Counter(line for (line,), _ in found) == Counter(value.decode() for value in values * copies)
    assert len(made.packs) < 20 if codec == "arrow" else len(made.packs) == len(found)
    if grouping == "fields":
        tasks = defaultdict(set)
        for row in made.packs:
            if row["topic"] == "t.tuples.count":
                for (line,), _ in tuples_of(row["value"], row["headers"], stream):
                    tasks[line].add(row["partition"])
        assert {len(each) for each in tasks.values()} == {1}
    offsets = [*range(1000), *range(1500, 2000)]
    assert {root for _, edges in found for root in edges} == set(map(root_of, offsets))
    report = made.report
    assert report.positions.tolist() == offsets
    assert pickle.loads(pickle.dumps(report)).positions.tolist() == offsets
    assert len(pickle.dumps(report)) < 2_000, "as runs without a gap"
    assert (report.tuples, report.dead.tolist()) == (1_500 * copies, [])
    log = made.log()
    assert not log.acked
    for _, edges in found:
        log.ack(edges)
    assert log.acked == set(map(root_of, offsets))


def test_a_message_without_recipients_is_acked_immediately() -> None:
    assert delivered(messages([b"a", b"b"]), bolts=[]).log().acked == {root_of(0), root_of(1)}


def test_unreadable_messages_are_dead_letters_and_begin_no_tree() -> None:
    json = declare({"n": int, "word": str}, codec="json")
    values = [b'{"n": 1, "word": "a"}', b"{", None, b'{"n": "x", "word": "b"}', b'{"n": 2, "word": null}']
    made = delivered(messages(values, 7), stream=json)
    letters = {int(dict(row["headers"])["dead-letter.offset"]): row for row in made.letters}
    assert [letters[offset]["value"] for offset in sorted(letters)] == values[1:]
    headers = letters[8]["headers"]
    assert headers[0] == ("mine", b"kept")
    assert {dict(each["headers"])["dead-letter.reason"] for each in letters.values()} == {b"bad-payload"}
    assert dict(headers)["dead-letter.by"] == b"lines/0"
    assert letters[8]["key"] == b"k"
    assert made.report.dead.tolist() == [8, 9, 10, 11]
    assert made.report.positions.tolist() == [7, 8, 9, 10, 11]
    ((_, edges),) = made.tuples(json)
    assert made.log().ack(edges) == {root_of(7)}


@pytest.mark.parametrize("codec", ["json", "avro"])
def test_tuples_share_packs_whatever_the_format_of_the_messages(codec: Any) -> None:
    written = payload_codec(PAIRS.model_copy(update={"codec": codec}))
    pairs = [(number, f"w{number}") for number in range(500)]
    values = [encode_tuples(written, [pair]) for pair in pairs]
    made = delivered(messages([*values, b"no"]), stream=PAIRS, codec=codec)
    assert sorted(values for values, _ in made.tuples(PAIRS)) == pairs
    assert len(made.packs) < 20
    assert len(made.letters) == 1


OFFSET_FIELDS = {f"{FIELD}offset": pa.array(["a", None]), f"{FIELD}n": pa.array([1, 2], pa.int64())}
ONE_AND_TWO = [packed(PAIRS, (1, "a")), packed(PAIRS, (2, "b"), (3, "c"))]


@pytest.mark.parametrize(
    ("batch", "stream", "tuples", "detail"),
    [
        pytest.param(messages([b"a", b"\xff"]), LINES, [("a",)], b"Invalid UTF8", id="no UTF-8"),
        # Fields may have the names of Kafka's columns.
        pytest.param(
            messages([b"", b""], **OFFSET_FIELDS), declare({"offset": str, "n": int}), [("a", 1)], b"null", id="a null"
        ),
        pytest.param(messages(ONE_AND_TWO), PAIRS, [(1, "a")], b"this one has 2", id="two tuples"),
    ],
)
def test_a_message_that_is_not_one_tuple_is_a_dead_letter(
    batch: Any, stream: StreamDeclaration, tuples: Any, detail: Any
) -> None:
    made = delivered(batch, stream=stream, has_fields=f"{FIELD}n" in batch.schema.names)
    assert [values for values, _ in made.tuples(stream, "t.tuples.count")] == tuples
    assert made.report.dead.tolist() == [1]
    (letter,) = made.letters
    assert detail in dict(letter["headers"])["dead-letter.detail"]


def test_replays_are_delivered_with_their_attempts_or_given_up() -> None:
    columns = {ATTEMPT: pa.array([1, 4, 3], pa.int16()), GIVEN_UP: [None, None, "all 3 attempts failed"]}
    made = delivered(messages([b"line 1", b"line 2", b"line 3"], 11, 3, **columns))
    wanted = 3 * MAX_OFFSET + np.array([11, 12, 13])
    assert made.report.positions.tolist() == wanted.tolist()
    assert made.report.dead.tolist() == wanted[2:].tolist()
    (letter,) = made.letters
    assert (letter["value"], dict(letter["headers"])["dead-letter.reason"]) == (b"line 3", b"retries-exhausted")
    assert {root for _, edges in made.tuples() for root in edges} == {root_of(11, 1, 3), root_of(12, 4, 3)}


def test_a_tuple_too_large_for_a_record_fails_its_tree() -> None:
    made = delivered(messages([b"a", b"b" * 5_000]), largest=4_000)
    (letter,) = made.letters
    assert dict(letter["headers"])["dead-letter.reason"] == b"too-large"
    assert set(made.log().failed) == {root_of(1)}


def test_no_tuple_leaves_if_its_init_is_not_delivered() -> None:
    sent: list[Record] = []

    def send(records: Sequence[Record]) -> None:
        sent.extend(records)
        raise SparkJobError("no broker")

    with pytest.raises(SparkJobError, match="no broker"):
        deliver(send, messages([b"a"]))
    assert {record[0] for record in sent} == {"t.acks"}


def test_untracked_tuples_have_no_anchors() -> None:
    made = delivered(messages([b"a"]), settings={"guarantee": "at_most_once"})
    assert not made.inits
    assert made.packs[0]["headers"] == [("source", b"lines/default")]


def test_emitted_rows_are_trees_of_their_own() -> None:
    sent: list[Record] = []
    emit = partial(emit_rows, *topology(LINES, [("count", "shuffle")]), sent.extend)
    made = of_topics(emit(iter([pa.record_batch({"line": ["a", "b", "a"]})])), sent)
    assert made.report == {"emitted": 3, "transferred": 3}
    found = made.tuples()
    assert sorted(line for (line,), _ in found) == ["a", "a", "b"]
    log = made.log()
    assert not log.acked
    for _, edges in found:
        log.ack(edges)
    assert len(log.acked) == 3
    with pytest.raises(SparkJobError, match="a row cannot be emitted: field line of stream default is null"):
        emit(iter([pa.record_batch({"line": pa.array(["a", None])})]))


def test_reports_of_tasks_are_merged() -> None:
    last = Delivered(MAX_OFFSET + np.array([0]), NOTHING.dead, 1)
    first, second = Delivered(np.array([1, 2, 5]), np.array([2]), 3), Delivered(np.array([7]), NOTHING.dead, 1)
    whole = together([second, first, last, NOTHING])
    assert (whole.positions.tolist(), whole.dead.tolist(), whole.tuples) == ([1, 2, 5, 7, MAX_OFFSET], [2], 5)
    assert not len(together([]).positions)
