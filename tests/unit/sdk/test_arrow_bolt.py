"""Bolts that take and emit columns: the rules of the other bolts, row by row."""

from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spout_sdk import TopologyBuilder, declare
from spout_sdk.arrow import ArrowBolt, ArrowCollector
from spout_sdk.errors import EmitError, TopologyError, TupleAlreadyDoneError
from spout_sdk.groupings import CustomGrouping
from tests.components import Sink, source
from tests.packs import tuples_of, under_seed
from tests.unit.sdk.bench import Bench, made
from tuple_tree.components import Grouping
from tuple_tree.manifest import Guarantee
from tuple_tree.routing import fields_task, grouping_key

Work = Callable[[Any, ArrowCollector], None]
WORDS = declare({"word": str, "n": int, "note": ["null", "string"]})
Lines = source(declare({"line": str, "n": int}), declare(["raw"], name="raw", codec="bytes"))
TASKS = 3
EDGES = under_seed([1, 2])
ROWS = [("a", 1), ("b", 2)]


class Columns(ArrowBolt):
    streams = (WORDS,)

    def __init__(self, work: Work | None = None) -> None:
        self.work = work

    def execute_batch(self, batch: Any, collector: ArrowCollector) -> None:
        self.collector = collector
        if self.work is not None:
            self.work(batch, collector)


class ByN(CustomGrouping):
    def choose(self, values: Any) -> Any:
        return {values[1] % self.tasks, 0}


class Rig:
    """The task of an Arrow bolt on a bench."""

    def __init__(
        self,
        work: Work | None = None,
        grouping: str = "all",
        guarantee: Guarantee = "at_least_once",
        source: str = "default",
        hook: Any = None,
        **options: Any,
    ) -> None:
        bolts: list[Columns] = []
        builder = TopologyBuilder("words", guarantee=guarantee, ack_partitions=3)
        builder.set_spout("lines", Lines)
        builder.set_bolt("split", made(bolts, lambda: Columns(work)), **options).shuffle_grouping("lines", source)
        count = builder.set_bolt("count", Sink, tasks=TASKS)
        given: dict[str, list[Any]] = {"fields": [["word", "n", "note"]], "partial_key": [["word"]], "custom": [ByN]}
        getattr(count, f"{grouping}_grouping")("split", *given.get(grouping, []))
        if hook is not None:
            builder.add_hook(hook)
        self.bench = Bench(builder.build(), pack_tuples=100)
        self.task: Any = self.bench.bolt("split")
        self.bolt = bolts[-1]
        # The first batches are small.
        self.bolt.work = lambda _batch, collector: collector.ack()
        self.run([("", 0)] * 63, [{}] * 63)
        self.bolt.work = work

    def run(self, rows: list[tuple[Any, ...]] = ROWS, edges: list[dict[int, int]] = EDGES) -> ArrowCollector:
        self.bench.pack("split", rows, edges)
        self.task.flush()
        return self.bolt.collector

    @property
    def sent(self) -> list[tuple[int, tuple[Any, ...], dict[int, int]]]:
        """Task, values and edges of all tuples that were sent."""
        self.task.flush()
        return [
            (each.partition, values, edges)
            for each in self.bench.sink.to(".tuples.count")
            for values, edges in tuples_of(each.value or b"", each.headers, WORDS)
        ]

    @property
    def checksums(self) -> dict[int, int]:
        self.task.flush()
        return self.bench.sink.checksums()


def checksums_of(edges: list[dict[int, int]]) -> dict[int, int]:
    sums: dict[int, int] = defaultdict(int)
    for each in edges:
        for root, edge in each.items():
            sums[root] ^= edge
    return sums


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


@given(batches(), st.sampled_from(sorted({*get_args(Grouping)} - {"direct", "local"})))
def test_every_row_arrives_once_and_the_acks_complete_its_trees(batch: Any, grouping: str) -> None:
    edges, rows, anchors = batch

    def work(part: Any, collector: ArrowCollector) -> None:
        first = part.column("n")[0].as_py()
        mine = [index for index, anchor in enumerate(anchors) if first <= anchor < first + len(part)]
        columns = list(zip(*(rows[index] for index in mine), strict=True)) or [(), (), ()]
        table = pa.table(columns, schema=pa.schema([("word", "string"), ("n", "int64"), ("note", "string")]))
        collector.emit(table, anchors=[anchors[index] - first for index in mine])
        collector.ack([0])
        collector.ack()

    rig = Rig(work, grouping)
    rig.run([("", row) for row in range(len(edges))], edges)
    arrived = rig.sent
    expected = checksums_of([*edges, *(each for _, _, each in arrived)])
    assert {**dict.fromkeys(expected, 0), **rig.checksums} == expected
    assert rig.task.committable == 2
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


def good(**columns: Any) -> dict[str, Any]:
    return {"word": ["x"], "n": [1], "note": [None], **columns}


def test_rows_are_anchored_one_to_one_by_default() -> None:
    rig = Rig(grouping="global")
    collector = rig.run()
    collector.emit({"word": ["x", "y"], "n": [1, 2], "note": [None, "z"]})
    collector.emit(good(word=["free"]), anchors=())
    assert [(values, list(edges)) for _, values, edges in rig.sent] == [
        (("x", 1, None), [1]),
        (("y", 2, "z"), [2]),
        (("free", 1, None), []),
    ]


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
    rig = Rig()
    collector = rig.run()
    with pytest.raises(EmitError, match=text):
        collector.emit(data, **options)
    collector.ack()
    assert (rig.sent, rig.checksums) == ([], checksums_of(EDGES))


def test_rows_are_acked_and_failed_by_number_or_mask_once() -> None:
    rig, edges = Rig(), under_seed(range(1, 6))
    collector = rig.run([("", row) for row in range(5)], edges)
    collector.fail("no", rows=np.array([False, True, False, True, False]))
    collector.ack([0])
    for again in ([1], [0], [0, 2]):
        with pytest.raises(TupleAlreadyDoneError):
            collector.ack(again)
    with pytest.raises(TupleAlreadyDoneError, match="emit anchored to"):
        collector.emit(good(), anchors=[1])
    rig.task.flush()
    assert rig.task.committable == 1
    collector.ack()
    assert (rig.checksums, rig.task.committable) == (checksums_of(edges[::2]), 2)
    assert {root for root, message in rig.bench.sink.failed().items() if message == "no"} == {4}


@pytest.mark.parametrize("on_exception", ["fail", "dead_letter"])
def test_an_exception_concerns_the_rows_that_are_not_settled(on_exception: str) -> None:
    def work(_batch: Any, collector: ArrowCollector) -> None:
        collector.ack([1])
        raise ValueError("bad")

    rig = Rig(work, on_exception=on_exception)
    rig.run().ack()
    failed = on_exception == "fail"
    assert rig.checksums == (EDGES[1] if failed else checksums_of(EDGES))
    assert rig.bench.sink.failed() == ({1: "ValueError: bad"} if failed else {})
    letters = [tuples_of(each.value or b"", (), Lines.streams[0]) for each in rig.bench.sink.to(".dead-letters")]
    assert [letter[0][0] for letter in letters] == ([] if failed else [("a", 1)])
    assert rig.task.committable == 2


def test_streams_of_single_records_are_rejected_when_the_task_begins() -> None:
    with pytest.raises(TopologyError, match="codec 'bytes'"):
        Rig(source="raw")
