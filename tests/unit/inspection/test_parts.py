"""The parts of a trace: moments, root ids, and the entries of a root in batches."""

from datetime import datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inspection.errors import MomentError, RootFormError
from inspection.notation import parse_root, positions_of_message, show_root, since_ms
from inspection.trace.output import verdict
from inspection.trace.records import RecordCollector
from inspection.trace.tree import Status, build_tree
from tests.manifests import bolt, spout
from tests.manifests import manifest as manifest_of
from tuple_tree.anchors import AnchorColumns
from tuple_tree.manifest import Manifest
from tuple_tree.messages import AckBatch, SpoutAddress, encode_ack_batch

ROOT = 0x0123456789ABCDEF
SPOUT = SpoutAddress("t.notices.lines", 0, 30_000)


def manifest() -> Manifest:
    return manifest_of(spout("other"), spout("lines"), bolt("split", "lines"), topology="t", ack_partitions=2)


def ids(*values: int) -> "np.ndarray[tuple[int], np.dtype[np.uint64]]":
    return np.array(values, dtype=np.uint64)


@given(st.integers(0, 2**64 - 1))
def test_a_root_is_read_as_it_is_shown(root: int) -> None:
    assert parse_root(show_root(root)) == root
    assert parse_root(hex(root)) == root
    # Sixteen digits are taken for what logs show.
    if len(str(root)) != 16:
        assert parse_root(str(root)) == root
    signed = str(root - 2**64)
    if root >= 2**63 and len(signed) != 16:
        assert parse_root(signed) == root


@pytest.mark.parametrize(
    ("shown", "ms"),
    [
        ("90s", 910_000),
        ("0.5m", 970_000),
        ("2h", 1_000_000 - 7_200_000),
        ("1d", 1_000_000 - 86_400_000),
        ("1970-01-01T00:00:10Z", 10_000),
        ("2026-03-01", round(datetime(2026, 3, 1).timestamp() * 1_000)),
        *((wrong, None) for wrong in ("", "soon", "5", "5w", "-1h", "1 h", "s", "2026-13-01")),
    ],
)
def test_moments(shown: str, ms: int | None) -> None:
    if ms is not None:
        assert since_ms(shown, 1_000_000) == ms
        return
    with pytest.raises(MomentError, match="30m, 2h or 1d"):
        since_ms(shown, 0)


@pytest.mark.parametrize("text", ["", "words", "0x", "1" * 21, str(2**64), "12g", "0x12345678901234567", "-ff"])
def test_invalid_roots_are_rejected(text: str) -> None:
    with pytest.raises(RootFormError, match="hexadecimal"):
        parse_root(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("17", "give SPOUT/PARTITION/OFFSET"),
        ("split/0/1", "has no spout 'split': it has other, lines"),
        ("lines/4096/1", "cannot have a root: partition 4096"),
        ("lines/1/2/64", "cannot have a root: attempt 64"),
    ],
)
def test_invalid_messages_are_rejected(text: str, shown: str) -> None:
    with pytest.raises(RootFormError, match=shown):
        positions_of_message(text, manifest())


def test_entries_of_a_root_are_found_in_batches() -> None:
    seen = RecordCollector([ROOT, 4], manifest())
    assert seen.ack_partitions == {1, 0}
    of_root, spout, first = ids(ROOT), ("lines/0", b"s" * 16), ("split/0", b"t" * 16)
    init = AckBatch(*spout, 1, True, SPOUT, init_roots=ids(3, ROOT), init_vals=ids(30, 31), reset_roots=of_root)
    fails: dict[str, Any] = {"fail_roots": ids(7, ROOT), "fail_messages": ("x", "no")}
    for offset, batch in enumerate(
        (
            init,
            init,
            AckBatch(*first, 1, ack_roots=ids(ROOT, 5), ack_vals=ids(31, 9), **fails),
            AckBatch("split/0", b"u" * 16, 0, opens=True),
            AckBatch(*first, 2, ack_roots=of_root, ack_vals=ids(31)),
            AckBatch(*spout, 2, spout=SPOUT, init_roots=of_root, init_vals=ids(31)),
        )
    ):
        seen.add_batch(1, offset, 1_000, encode_ack_batch(batch))
    seen.add_batch(1, 6, 1_000, b"no batch")
    assert [
        (outcomes.kind, outcomes.offset, outcomes.val, outcomes.dropped) for outcomes in seen.found[ROOT].entries
    ] == [
        ("init", 0, 31, ""),
        ("reset", 0, 0, ""),
        ("init", 1, 31, "repeated"),
        ("reset", 1, 0, "repeated"),
        ("ack", 2, 31, ""),
        ("fail", 2, 0, ""),
        ("ack", 4, 31, "superseded"),
        ("init", 5, 31, "duplicate"),
    ]
    assert [outcomes.message for outcomes in seen.found[ROOT].entries if outcomes.kind == "fail"] == ["no"]
    assert seen.found[4].entries == []


def test_a_dead_letter_is_a_child_of_its_tuple_and_the_verdict_names_it() -> None:
    seen = RecordCollector([ROOT], manifest())
    anchors = bytes(12) + ROOT.to_bytes(8, "big")
    edge = int(AnchorColumns.read(anchors, None).edges[0])
    spout, split = ("lines/0", b"s" * 16), ("split/0", b"t" * 16)
    seen.add_tuple("split", 0, 7, 1_000, [("anchors", anchors), ("source", b"lines/default")], None)
    batches = (
        AckBatch(*spout, 1, True, SPOUT, init_roots=ids(ROOT), init_vals=ids(edge)),
        AckBatch(*split, 1, mark_roots=ids(ROOT), mark_vals=ids(99), mark_messages=("ValueError: no",)),
        AckBatch(*split, 2, ack_roots=ids(ROOT), ack_vals=ids(edge ^ 99)),
    )
    for offset, batch in enumerate(batches):
        seen.add_batch(1, offset, 1_000 + offset, encode_ack_batch(batch))
        seen.add_batch(1, offset + 10, 1_000 + offset, encode_ack_batch(batch))  # a repeat
    tree = build_tree(seen.found[ROOT], spouts=["lines"])
    assert (tree.status, tree.unexplained) == (Status.ACKED, ())
    assert [node.name for node in tree.tuples] == ["split/0@7"]
    assert [(node.name, node.parents) for node in tree.dead_letters] == [("dead letter", tuple(tree.tuples))]
    assert verdict(tree) == "acked after 2 ms, with a dead letter of `split` (ValueError: no): all of 1 tuple"
