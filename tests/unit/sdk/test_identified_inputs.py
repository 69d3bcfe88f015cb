"""Inputs of a bolt that leads to a state: what is emitted for several of them, and their dead letters."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from spout_sdk import KafkaSpout, OutputCollector, TopologyBuilder, Tuple
from spout_sdk.arrow import ArrowBolt, ArrowCollector
from spout_sdk.testing import MemoryRecord
from tests.components import ByHand
from tests.packs import anchor_headers, edges_in, packed, under_seed
from tests.unit.sdk.bench import Bench, BenchTask
from tests.unit.sdk.test_identities import WORD, Count
from tuple_tree.anchors import SOURCE_HEADER
from tuple_tree.edges import mix
from tuple_tree.identities import IDENTITIES_HEADER, NO_POSITION, IdentityColumns, source_hash

NO_IDENTITY = (NO_POSITION, 0)


def in_the_middle(work: Any, **options: Any) -> tuple[Bench, BenchTask]:
    """The task of an Arrow bolt, or of a bolt by hand, which `work`s, in front of a state."""

    class Tuples(ByHand):
        streams = (WORD,)

        def execute(self, tuple_: Tuple) -> None:
            work(tuple_, self.collector)

    class Columns(ArrowBolt):
        streams = (WORD,)

        def execute_batch(self, batch: Any, collector: ArrowCollector) -> None:
            work(batch, collector) if len(batch) > 2 else collector.ack()

    builder = TopologyBuilder("t")
    builder.set_spout("lines", KafkaSpout("source"))
    is_columns = "batch" in work.__code__.co_varnames
    builder.set_bolt("split", Columns if is_columns else Tuples, **options).shuffle_grouping("lines")
    builder.set_bolt("count", Count).fields_grouping("split", "word")
    bench = Bench(builder.build(), pack_tuples=100)
    task = bench.bolt("split")
    if is_columns:  # the first batches are small
        bench.pack("split", [("a",)] * 3, [{}] * 3)
        task.flush()
    return bench, task


def fed(bench: Bench, *roots: tuple[int, ...], positions: Sequence[int], paths: Sequence[int]) -> MemoryRecord:
    """A record of `lines` for `split`, whose tuples have these roots and identities."""
    identities = IdentityColumns(np.array(positions, np.uint64), np.array(paths, np.uint64)).headers()
    values = [(str(number),) for number in range(len(roots))]
    payload = packed(bench.topology.manifest.stream("lines", "default"), *values)
    headers = [*anchor_headers(under_seed(roots)), *identities, (SOURCE_HEADER, b"lines/default")]
    return bench.raw("split", payload, headers)


def identities_sent(bench: Bench) -> list[tuple[int, int]]:
    """Position and path of all tuples that were sent to `count`."""
    found = []
    for sent in bench.sink.to(".count"):
        tuples = len(edges_in(sent.headers))
        columns = IdentityColumns.read(sent.header.get(IDENTITIES_HEADER), tuples)
        found += list(zip(columns.positions.tolist(), columns.paths.tolist(), strict=True))
    return found


def at_split(path: int) -> int:
    """The path with which a tuple of `lines` arrives at `split`."""
    (found,) = mix(np.array([path], np.uint64) + source_hash(b"lines/default")).tolist()
    return int(found)


def test_only_tuples_for_one_input_have_an_identity() -> None:
    held: list[Tuple] = []

    def work(tuple_: Tuple, collector: OutputCollector) -> None:
        held.append(tuple_)
        if len(held) == 4:
            one, other, of_two_trees, untracked = held
            anchors: list[Any] = [[one, other], one, (), [one, untracked], [one], of_two_trees, untracked, one, other]
            for each in anchors:
                collector.emit(("a",), anchors=each)
            collector.ack_all(held)

    bench, task = in_the_middle(work)
    fed(bench, (1,), (1,), (2, 3), (), positions=[7, 7, NO_POSITION, NO_POSITION], paths=[5, 6, 0, 0])
    task.flush()
    (one, other) = at_split(5), at_split(6)
    # The first two are in one tree, and yet their order may be another one in a replay.
    assert identities_sent(bench) == [
        *(NO_IDENTITY, (7, one), NO_IDENTITY, NO_IDENTITY, (7, one + 1)),
        *(NO_IDENTITY, NO_IDENTITY, (7, one + 2), (7, other)),
    ]


def test_columns_may_have_inputs_of_several_trees_or_none() -> None:
    def work(batch: Any, collector: ArrowCollector) -> None:
        rows = [3, 0, 1, 0, 2, 3, 0, 2]
        collector.emit({"word": [str(row) for row in rows]}, anchors=rows)
        collector.emit({"word": ["x"] * 4})
        collector.emit({"word": ["untracked"]}, anchors=())
        collector.ack()

    bench, task = in_the_middle(work)
    fed(bench, (1,), (2, 3), (), (4,), positions=[7, NO_POSITION, NO_POSITION, 8], paths=[5, 0, 0, 5])
    task.flush()
    base = at_split(5)
    assert identities_sent(bench) == [
        *((8, base), (7, base), NO_IDENTITY, (7, base + 1), NO_IDENTITY, (8, base + 1), (7, base + 2), NO_IDENTITY),
        *((7, base + 3), NO_IDENTITY, NO_IDENTITY, (8, base + 2)),
        NO_IDENTITY,
    ]


def test_the_dead_letter_of_one_tuple_has_its_identity() -> None:
    def work(tuple_: Tuple, _collector: OutputCollector) -> None:
        if tuple_["value"] == "1":
            raise ValueError("refused")

    bench, task = in_the_middle(work, on_exception="dead_letter")
    fed(bench, (1,), (2,), positions=[7, 8], paths=[0, 9])
    task.flush()
    (letter,) = bench.sink.to(".dead-letters")
    columns = IdentityColumns.read(letter.header[IDENTITIES_HEADER], 1)
    assert (columns.positions.tolist(), columns.paths.tolist()) == ([8], [9])
    assert [name for name, _ in letter.headers].count(IDENTITIES_HEADER) == 1


def test_a_record_whose_identities_do_not_fit_is_rejected() -> None:
    def work(tuple_: Tuple, _collector: OutputCollector) -> None:
        raise AssertionError(tuple_)

    bench, task = in_the_middle(work)
    payload = packed(bench.topology.manifest.stream("lines", "default"), ("1",), ("2",))
    headers = [*anchor_headers(under_seed((1, 2))), (IDENTITIES_HEADER, bytes(24)), (SOURCE_HEADER, b"lines/default")]
    bench.raw("split", payload, headers)
    task.flush()
    (letter,) = bench.sink.to(".dead-letters")
    assert letter.header["dead-letter.reason"] == b"ragged-identities"
    assert set(bench.sink.failed()) == {1, 2}
