"""Packs: tuples of any size and anchors are read as they were emitted, and unsent ones fail their trees."""

import random
from collections import defaultdict
from typing import Any

import pytest

from spout_sdk.emitting.packer import OpenPack, Packer
from spout_sdk.records import Headers
from spout_sdk.statistics.stats import Counters
from tests.packs import tuples_of
from tests.seeds import each_seed
from tests.unit.sdk.memory import MemorySink
from tuple_tree.anchors import Edges
from tuple_tree.ids import ID_MASK
from tuple_tree.payloads import MAX_BYTES, payload_codec
from tuple_tree.streams import Stream, declare

STREAM = declare({"text": str, "number": int})
SOURCE = ("source", b"one/default")
TRACE: Headers = [("traceparent", b"00-1")]


class Rig:
    """A packer, and packs of a stream for some tasks."""

    def __init__(self, stream: Stream = STREAM, tasks: int = 1, pack_tuples: int = 1_000) -> None:
        self.sink = MemorySink()
        self.undelivered: list[tuple[list[int], int, str]] = []
        self.packer = Packer(
            self.sink,
            Counters(),
            lambda roots, tuples, error, _: self.undelivered.append(([*roots], tuples, type(error).__name__)),
        )
        self.stream = stream
        self.codec = payload_codec(stream)
        self.packs = [OpenPack("t.tuples.b", task, self.codec, SOURCE, pack_tuples) for task in range(tasks)]

    def add(self, values: tuple[Any, ...], edges: Edges, task: int = 0, trace_context: Headers | None = None) -> None:
        self.packer.add(self.packs[task], self.codec.row(values), edges, b"key", trace_context or [])

    def read(self) -> dict[int, list[tuple[Any, Edges, Headers]]]:
        """Task → values, edges and trace context of sent tuples."""
        found = defaultdict(list)
        for sent in self.sink.tuples:
            context = [header for header in sent.headers if header[0] == "traceparent"]
            for values, edges in tuples_of(sent.value or b"", sent.headers, self.stream):
                found[sent.partition].append((values, edges, context))
        return dict(found)


def _several(payload: bytes | None, rig: Rig) -> bool:
    return len(rig.codec.decode(payload or b"")[0]) > 1


def _check_order(seed: int) -> None:
    chance = random.Random(seed)
    for codec in ("arrow", "avro"):
        rig = Rig(declare({"text": str, "number": int}, codec=codec), 3, chance.choice((1, 2, 7, 1_000)))
        added: dict[int, list[tuple[Any, Edges, Headers]]] = defaultdict(list)
        for number in range(chance.choice((10, 3_000))):
            task = chance.randrange(3)
            size = chance.choices((3, 2_000, 300_000), (50, 10, 1))[0]
            anchors = chance.choices((1, 0, 2, 5), (20, 1, 1, 1))[0]
            edges = {chance.randrange(ID_MASK): chance.randrange(ID_MASK) for _ in range(anchors)}
            context = TRACE if chance.random() < 0.02 else []
            added[task].append((("x" * size, number), edges, context))
            rig.add(("x" * size, number), edges, task, context)
            if chance.random() < 0.01:
                rig.packer.flush()
        assert rig.packer.emitted == sum(map(len, added.values()))
        rig.packer.flush()
        assert rig.read() == added
        assert all(len(sent.value or b"") <= MAX_BYTES or not _several(sent.value, rig) for sent in rig.sink.tuples)
        assert not rig.undelivered


def test_added_tuples_are_sent_in_their_order() -> None:
    each_seed(_check_order)


def test_values_that_do_not_fit_fail_only_their_trees() -> None:
    rig = Rig()
    for number, row in enumerate([("a", 1), ("b", 2**63), ("\ud800", 3), ("d", 4), ("e", -(2**63) - 1)]):
        edges = {number: 9, 100 + number: 9} if number == 2 else {number: 9}
        rig.packer.add(rig.packs[0], row, edges, None, [])
    rig.packer.flush()
    assert [(values, [*edges]) for values, edges, _ in rig.read()[0]] == [(("a", 1), [0]), (("d", 4), [3])]
    assert rig.undelivered == [
        ([1], 1, "OverflowError"),
        ([2, 102], 1, "UnicodeEncodeError"),
        ([4], 1, "OverflowError"),
    ]


@pytest.mark.parametrize("edges", [{7: 1, 8: 2}, {}])
def test_a_record_that_is_not_delivered_fails_the_trees_of_all_its_tuples(edges: Edges) -> None:
    rig = Rig()
    rig.add(("a", 1), {1: 1})
    rig.add(("b", 2), edges)
    rig.packer.flush()
    (sent,) = rig.sink.tuples
    sent.deliver(TimeoutError())
    assert rig.undelivered == [([1, *edges], 2, "TimeoutError")]


def test_anchors_count_for_the_size_of_a_record() -> None:
    rig = Rig()
    for number in range(300):
        rig.add(("a", number), dict.fromkeys(range(500 * number, 500 * number + 500), 9))
    rig.packer.flush()
    sizes = [sum(len(value or b"") for _, value in sent.headers) + len(sent.value or b"") for sent in rig.sink.tuples]
    assert max(sizes) < 300_000
    assert len(rig.read()[0]) == 300


def test_a_record_of_one_tuple_has_its_key_and_a_pack_has_none() -> None:
    for codec, key in (("arrow", None), ("json", b"key")):
        rig = Rig(declare({"text": str, "number": int}, codec=codec))
        rig.add(("a", 1), {1: 1})
        rig.packer.flush()
        assert [sent.key for sent in rig.sink.tuples] == [key]
