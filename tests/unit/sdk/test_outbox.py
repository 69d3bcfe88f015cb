"""The outbox: tuples of any size and anchors are read as they were emitted, and unsent ones fail their trees."""

import random
from collections import defaultdict
from typing import Any

import pytest

from spout_sdk.emitting.outbox import MAX_MESSAGE
from spout_sdk.records import Headers
from tests.seeds import each_seed
from tests.unit.sdk.outbox_rig import OutboxRig
from tuple_tree.ids import ID_MASK
from tuple_tree.input_batch import InputBatch
from tuple_tree.payloads import MAX_BYTES
from tuple_tree.streams import declare

TRACE: Headers = [("traceparent", b"00-1")]


def _several(payload: bytes | None, rig: OutboxRig) -> bool:
    return len(rig.codec.decode(payload or b"")[0]) > 1


def _check_order(seed: int) -> None:
    chance = random.Random(seed)
    for codec in ("arrow", "avro"):
        stream = declare({"text": str, "number": int}, codec=codec)
        rig = OutboxRig(stream, tasks=3, pack_tuples=chance.choice((1, 2, 7, 1_000)))
        added: dict[int, list[tuple[Any, set[int], Headers]]] = defaultdict(list)
        for number in range(chance.choice((10, 1_000))):
            task = chance.randrange(3)
            size = chance.choices((3, 2_000, 300_000), (50, 10, 1))[0]
            roots = [chance.randrange(ID_MASK) for _ in range(chance.choices((1, 0, 2, 5), (20, 1, 1, 1))[0])]
            context = TRACE if len(roots) < 2 and chance.random() < 0.02 else []
            added[task].append((("x" * size, number), set(roots), context))
            rig.add(("x" * size, number), roots, task, context)
            if chance.random() < 0.01:
                rig.outbox.flush()
        without = sum(not roots for of in added.values() for _, roots, _ in of)
        assert rig.outbox.unanchored == without
        rig.outbox.flush()
        assert (rig.outbox.is_empty, rig.outbox.unanchored) == (True, without)
        sent = {task: [(values, {*edges}, context) for values, edges, context in of] for task, of in rig.sent().items()}
        assert sent == added
        assert all(len(sent.value or b"") <= MAX_BYTES or not _several(sent.value, rig) for sent in rig.sink.tuples)
        assert not rig.sink.failed()


def test_added_tuples_are_sent_in_their_order() -> None:
    each_seed(_check_order)


def test_values_that_do_not_fit_fail_only_their_trees() -> None:
    rig = OutboxRig()
    batch = InputBatch()
    for number, row in enumerate([("a", 1), ("b", 2**63), ("\ud800", 3), ("d", 4), ("e", -(2**63) - 1)]):
        places = [batch.begin(number), *([batch.begin(102)] if number == 2 else [])]
        rig.add_row(row, [(batch, place) for place in places])
    rig.outbox.flush()
    assert [(values, [*edges]) for values, edges, _ in rig.sent()[0]] == [(("a", 1), [0]), (("d", 4), [3])]
    failed = {root: message.partition(": ")[2].partition(":")[0] for root, message in rig.sink.failed().items()}
    assert failed == {1: "OverflowError", 2: "UnicodeEncodeError", 102: "UnicodeEncodeError", 4: "OverflowError"}


@pytest.mark.parametrize("roots", [[7, 8], []])
def test_a_record_that_is_not_delivered_fails_the_trees_of_all_its_tuples(roots: list[int]) -> None:
    rig = OutboxRig()
    rig.add(("a", 1), [1])
    rig.add(("b", 2), roots)
    rig.outbox.flush()
    (sent,) = rig.sink.tuples
    sent.deliver(TimeoutError())
    assert not rig.outbox.is_empty
    rig.outbox.flush()
    assert set(rig.sink.failed()) == {1, *roots}


def test_anchors_count_for_the_size_of_a_record() -> None:
    rig = OutboxRig()
    for number in range(100):
        rig.add(("a", number), range(1_000 * number + 1, 1_000 * number + 1_001))
    rig.outbox.flush()
    sizes = [sum(len(value or b"") for _, value in sent.headers) + len(sent.value or b"") for sent in rig.sink.tuples]
    assert max(sizes) < 300_000
    assert len(rig.sent()[0]) == 100


def test_parts_of_a_pack_that_is_too_large_have_the_edges_that_were_joined() -> None:
    rig = OutboxRig(partitions=1)
    batch, created = InputBatch(), dict[int, int]()
    for root in range(1, 101):
        place = batch.begin(root)
        rig.add_row(("x" * 9_000, root), [(batch, place)])
        rig.outbox.acked.add(batch, place)
    rig.outbox.flush()
    assert len(rig.sink.tuples) > 3
    for _, edges, _ in rig.sent()[0]:
        created |= edges
    assert rig.sink.checksums() == created
    assert len(created) == len(set(created.values())) == 100


def test_long_messages_are_cut_and_sent_before_they_fill_a_record() -> None:
    rig = OutboxRig(partitions=1)
    for root in range(4_096):
        rig.outbox.fail(root, "x" * 10_000)
    rig.outbox.flush()
    assert {len(message) for batch in rig.sink.batches for message in batch.fail_messages} == {MAX_MESSAGE}
    assert max(len(sent.value or b"") for sent in rig.sink.reported) < 200_000
    assert sum(len(batch.fail_roots) for batch in rig.sink.batches) == 4_096
