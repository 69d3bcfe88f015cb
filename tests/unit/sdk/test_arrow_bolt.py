"""Bolts that take and emit columns: the rules of the other bolts, row by row."""

from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spout_sdk import (
    ArrowBolt,
    ArrowCollector,
    CustomGrouping,
    EmitError,
    EmitInfo,
    TaskHook,
    TopologyBuilder,
    TopologyError,
    Tuple,
    TupleAlreadyDoneError,
    declare,
)
from spout_sdk.testing import MemoryRecord
from tests.components import Sink, source
from tests.packs import tuples_of, under_seed
from tests.unit.sdk.memory import Bench, made
from tuple_tree.components import KEYED, Grouping
from tuple_tree.manifest import Guarantee
from tuple_tree.routing import fields_task, grouping_key

Work = Callable[[Any, ArrowCollector], None]
WORDS = declare({"word": str, "n": int, "note": ["null", "string"]})
TASKS = 3


Lines = source(declare({"line": str, "n": int}), declare(["raw"], name="raw", codec="bytes"))


class Columns(ArrowBolt):
    streams = (WORDS,)

    def __init__(self, work: Work | None = None) -> None:
        self.work = work
        self.calls: list[tuple[Any, ArrowCollector]] = []

    def execute_batch(self, batch: Any, collector: ArrowCollector) -> None:
        self.calls.append((batch, collector))
        if self.work is not None:
            self.work(batch, collector)


class ByN(CustomGrouping):
    def choose(self, values: Any) -> Any:
        return {values[1] % self.tasks, 0}


def rig(
    work: Work | None = None,
    grouping: str = "all",
    *,
    guarantee: Guarantee = "at_least_once",
    source: str = "default",
    hooks: Any = (),
    **options: Any,
) -> tuple[Bench, Any, Columns]:
    """A bench, the task of an Arrow bolt, and the bolt."""
    bolts: list[Columns] = []
    builder = TopologyBuilder("words", guarantee=guarantee, ack_partitions=3)
    builder.set_spout("lines", Lines)
    builder.set_bolt("split", made(bolts, lambda: Columns(work)), **options).shuffle_grouping("lines", source)
    count = builder.set_bolt("count", Sink, tasks=TASKS)
    match grouping:
        case "fields":
            count.fields_grouping("split", ["word", "n", "note"])
        case "custom":
            count.custom_grouping("split", ByN)
        case _:
            getattr(count, f"{grouping}_grouping")("split", *(["word"] if grouping in KEYED else []))
    for hook in hooks:
        builder.add_hook(hook)
    bench = Bench(builder.build(), pack_tuples=100)
    return bench, bench.bolt("split"), bolts[-1]


def record(bench: Bench, rows: list[tuple[Any, ...]], edges: list[dict[int, int]]) -> MemoryRecord:
    return bench.pack("split", rows, edges)


def run(bench: Bench, task: Any, rows: list[tuple[Any, ...]], edges: list[dict[int, int]]) -> None:
    task.execute_batch(task.read_columns(record(bench, rows, edges)))


def sent(bench: Bench) -> list[tuple[int, tuple[Any, ...], dict[int, int]]]:
    """Task, values and edges of all tuples that were sent."""
    return [
        (each.partition, values, edges)
        for each in bench.sink.to(".tuples.count")
        for values, edges in tuples_of(each.value or b"", each.headers, WORDS)
    ]


def checksums_of(edges: list[dict[int, int]]) -> dict[int, int]:
    sums: dict[int, int] = defaultdict(int)
    for each in edges:
        for root, edge in each.items():
            sums[root] ^= edge
    return sums


EDGES = under_seed([1, 2])

ids = st.integers(1, 2**64 - 1)
texts = st.sampled_from(["a", "b", "ä", "", "long" * 9])


@st.composite
def batches(draw: Any) -> Any:
    """Input rows' edges, and rows to emit, each with the row that it is anchored to."""
    roots = draw(st.lists(ids, min_size=1, max_size=4, unique=True))
    of_rows = st.lists(st.sampled_from(roots), max_size=3, unique=True)
    edges = under_seed(draw(st.lists(of_rows, min_size=1, max_size=9)), draw(ids))
    notes = st.none() | texts
    row = st.tuples(texts, st.integers(-(2**63), 2**63 - 1), notes)
    rows = draw(st.lists(st.tuples(row, st.integers(0, len(edges) - 1)), max_size=250))
    return edges, [row for row, _ in rows], [anchor for _, anchor in rows]


@given(batches(), st.sampled_from(sorted({*get_args(Grouping)} - {"direct", "local"})), st.integers(1, 9))
def test_every_row_arrives_once_and_the_acks_complete_its_trees(batch: Any, grouping: str, size: int) -> None:
    edges, rows, anchors = batch

    def work(part: Any, collector: ArrowCollector) -> None:
        first = part.column("n")[0].as_py()
        mine = [index for index, anchor in enumerate(anchors) if first <= anchor < first + len(part)]
        columns = list(zip(*(rows[index] for index in mine), strict=True)) or [(), (), ()]
        table = pa.table(columns, schema=pa.schema([("word", "string"), ("n", "int64"), ("note", "string")]))
        collector.emit(table, anchors=[anchors[index] - first for index in mine])
        collector.ack([0])
        collector.ack()

    bench, task, _ = rig(work, grouping)
    whole = task.read_columns(record(bench, [("", row) for row in range(len(edges))], edges))
    for begin in range(0, len(edges), size):
        task.execute_batch(whole[begin : begin + size])
    task.flush()
    arrived = sent(bench)
    expected = checksums_of([*edges, *(each for _, _, each in arrived)])
    assert {**dict.fromkeys(expected, 0), **bench.sink.checksums()} == expected
    assert (task.committable, task.open_inputs) == (1, 0)
    choices: dict[str, Callable[[Any], Any]] = {
        "all": lambda _: range(TASKS),
        "global": lambda _: [0],
        "fields": lambda row: [fields_task(grouping_key(row), TASKS)],
        "custom": lambda row: {row[1] % TASKS, 0},
    }
    copies = choices.get(grouping)
    if copies is None:
        assert Counter(values for _, values, _ in arrived) == Counter(rows)
    else:
        expected_copies = Counter((to, row) for row in rows for to in copies(row))
        assert Counter((to, values) for to, values, _ in arrived) == expected_copies
    for _, values, each in arrived:
        assert set(each) in [set(edges[anchors[index]]) for index, row in enumerate(rows) if row == values]
    if grouping == "shuffle" and rows:
        load = Counter(to for to, _, _ in arrived)
        assert max(load.values()) - min(load[to] for to in range(TASKS)) <= len(edges)


def test_rows_are_anchored_one_to_one_by_default() -> None:
    bench, task, bolt = rig(grouping="global")
    run(bench, task, [("a", 1), ("b", 2)], EDGES)
    (_, collector) = bolt.calls[0]
    collector.emit({"word": ["x", "y"], "n": [1, 2], "note": [None, "z"]})
    collector.emit({"word": ["free"], "n": [3], "note": [None]}, anchors=())
    task.flush()
    assert [(values, list(edges)) for _, values, edges in sent(bench)] == [
        (("x", 1, None), [1]),
        (("y", 2, "z"), [2]),
        (("free", 3, None), []),
    ]


def good(**columns: Any) -> dict[str, Any]:
    return {"word": ["x"], "n": [1], "note": [None], **columns}


@pytest.mark.parametrize(
    ("data", "options", "text"),
    [
        ({"word": ["x"]}, {}, "do not fit"),
        (good(n=["one"]), {}, "do not fit"),
        (good(n=[2**64]), {}, "do not fit"),
        (good(word=[None]), {}, "null"),
        (good(), {"anchors": [0, 1]}, "1 rows, and anchors for 2"),
        (good(), {"anchors": [2]}, "rows from 2 to 2, and there are 2"),
        (good(), {"anchors": [0.5]}, "must be integers"),
        (good(), {}, "1 rows, and anchors for 2"),
        (good(), {"stream": "other"}, "add the stream"),
    ],
)
def test_rows_that_do_not_fit_raise_and_nothing_is_sent(data: Any, options: Any, text: str) -> None:
    bench, task, bolt = rig()
    run(bench, task, [("a", 1), ("b", 2)], EDGES)
    collector = bolt.calls[0][1]
    with pytest.raises(EmitError, match=text):
        collector.emit(data, **options)
    collector.ack()
    task.flush()
    assert (sent(bench), bench.sink.checksums()) == ([], checksums_of(EDGES))


def test_rows_are_acked_and_failed_by_number_or_mask_once() -> None:
    bench, task, bolt = rig()
    run(bench, task, [("", row) for row in range(5)], under_seed(range(1, 6)))
    collector = bolt.calls[0][1]
    collector.fail("no", rows=np.array([False, True, False, True, False]))
    collector.ack([0])
    for again in ([1], [0], [0, 2]):
        with pytest.raises(TupleAlreadyDoneError):
            collector.ack(again)
    with pytest.raises(TupleAlreadyDoneError, match="emit anchored to"):
        collector.emit({"word": ["x"], "n": [1], "note": [None]}, anchors=[1])
    task.flush()
    assert task.committable == 0
    collector.ack()
    task.flush()
    assert (bench.sink.checksums(), task.committable) == (checksums_of(under_seed(range(1, 6))[::2]), 1)
    assert {root: message for root, message in bench.sink.failed().items() if message == "no"} == {4: "no"}


@pytest.mark.parametrize("on_exception", ["fail", "dead_letter"])
def test_an_exception_concerns_the_rows_that_are_not_settled(on_exception: str) -> None:
    def work(_batch: Any, collector: ArrowCollector) -> None:
        collector.ack([1])
        raise ValueError("bad")

    bench, task, bolt = rig(work, on_exception=on_exception)
    run(bench, task, [("a", 1), ("b", 2)], EDGES)
    bolt.calls[0][1].ack()
    task.flush()
    letters = bench.sink.to(".dead-letters")
    if on_exception == "fail":
        assert (bench.sink.failed(), letters) == ({1: "ValueError: bad"}, [])
        assert bench.sink.checksums() == EDGES[1]
    else:
        assert [tuples_of(each.value or b"", (), Lines.streams[0])[0][0] for each in letters] == [("a", 1)]
        assert bench.sink.checksums() == checksums_of(EDGES)
    assert task.committable == 1


@pytest.mark.parametrize(("guarantee", "edges"), [("at_least_once", [{}, {}]), ("at_most_once", EDGES)])
def test_untracked_rows_are_settled_too(guarantee: Guarantee, edges: list[dict[int, int]]) -> None:
    bench, task, bolt = rig(guarantee=guarantee)
    run(bench, task, [("a", 1), ("b", 2)], edges)
    bolt.calls[0][1].emit({"word": ["x", "y"], "n": [1, 2], "note": [None, None]})
    bolt.calls[0][1].ack()
    task.flush()
    assert (task.committable, bench.sink.batches) == (1, [])
    assert {len(each) for _, _, each in sent(bench)} == {0}


def test_streams_of_single_records_are_rejected_when_the_task_begins() -> None:
    with pytest.raises(TopologyError, match="codec 'bytes'"):
        rig(source="raw")


def test_hooks_are_called_for_each_row() -> None:
    seen: list[Any] = []

    class Hook(TaskHook):
        def emit(self, emitted: EmitInfo) -> None:
            seen.append((emitted.values, len(emitted.tasks)))

        def bolt_execute(self, tuple_: Tuple, seconds: float) -> None:
            seen.append(("executed", tuple_.values))

        def bolt_ack(self, tuple_: Tuple) -> None:
            seen.append(("acked", tuple_.values))

    def work(_batch: Any, collector: ArrowCollector) -> None:
        collector.emit(good(), anchors=[0])
        collector.ack()

    bench, task, _ = rig(work, hooks=[Hook])
    run(bench, task, [("a", 1)], under_seed([1]))
    assert seen == [(("x", 1, None), TASKS), ("acked", ("a", 1)), ("executed", ("a", 1))]
