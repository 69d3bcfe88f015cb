"""Routing: acker partitions, fields groupings, and the XXH64 values that other languages must get."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from tuple_tree.arrow_packs import PackCodec
from tuple_tree.components import Subscription
from tuple_tree.routing import HASH_SEED, acker_partition, chooser, fields_task, grouping_key, partial_key_tasks
from tuple_tree.streams import StreamDeclaration, declare

_VECTORS: dict[str, Any] = json.loads((Path(__file__).parent / "vectors" / "routing.json").read_text())


def test_the_root_is_read_as_unsigned() -> None:
    # The signed remainder of -1 would be -1, or 6 after correction.
    assert acker_partition(2**64 - 1, 7) == 1
    assert [acker_partition(root, 8) for root in (0, 9, 2**63, 2**64 - 2)] == [0, 1, 0, 6]


def test_pinned_tasks() -> None:
    vectors = _VECTORS["fields_grouping"]
    for vector in vectors:
        key = grouping_key([bytes.fromhex(part) for part in vector["parts_hex"]])
        assert key.hex() == vector["key_hex"]
        assert xxhash.xxh64_intdigest(key, HASH_SEED) == int(vector["xxh64"], 16)
        assert (fields_task(key, 3), fields_task(key, 8)) == (vector["task_of_3"], vector["task_of_8"])
    assert any(int(vector["xxh64"], 16) >= 2**63 for vector in vectors), "one that is negative when read as signed"


def test_the_two_tasks_of_a_partial_key_differ_and_are_in_range() -> None:
    for tasks in range(2, 9):
        for number in range(200):
            first, second = partial_key_tasks(b"%d" % number, tasks)
            assert first == fields_task(b"%d" % number, tasks)
            assert 0 <= second < tasks
            assert first != second
    assert partial_key_tasks(b"any", 1) == (0, 0)


def test_keys() -> None:
    keys: list[tuple[list[object], bytes]] = [
        (["böse"], b"b\xc3\xb6se"),
        ([b"\x00\xff"], b"\x00\xff"),
        ([-42], b"-42"),
        ([2**70], b"1180591620717411303424"),
        ([True], b"true"),
        ([False], b"false"),
        (["de", 7], b"de\x1f7"),
        (["", None, True], b"\x1f\x1ftrue"),
        ([], b""),
    ]
    for values, key in keys:
        assert grouping_key(values) == key


def test_values_without_one_text_form_are_rejected() -> None:
    for value in (1.5, [1], {"a": 1}, (1,)):
        with pytest.raises(TypeError, match=f"a {type(value).__name__} cannot be grouped by: a grouping field is"):
            grouping_key(["a", value])


_KEYS = st.lists(
    st.tuples(st.text(max_size=2), st.integers(-3, 3), st.booleans(), st.none() | st.binary(max_size=1)), max_size=40
)


@given(rows=_KEYS, fields=st.permutations(["a", "b", "c", "d"]), count=st.integers(1, 4), tasks=st.integers(1, 9))
def test_columns_reach_the_tasks_of_their_tuples(
    rows: list[tuple[Any, ...]], fields: list[str], count: int, tasks: int
) -> None:
    stream = declare({"a": str, "b": int, "c": bool, "d": ["null", "bytes"]})
    _compare(stream, rows, fields[:count], tasks)


def test_pairs_of_many_different_values_reach_the_tasks_of_their_tuples() -> None:
    """The numbers of pairs exceed 32 bits: modulo 2^32, each of these would be that of another row."""
    size = 2**16
    rows = [(number, number % size) for number in range(2 * size)]
    _compare(declare({"a": int, "b": int}), rows, ["a", "b"], 31)


def _compare(stream: StreamDeclaration, rows: list[tuple[Any, ...]], fields: list[str], tasks: int) -> None:
    """The rows of each task, as columns, as tuples, and by XXH64 of the documented key."""
    subscription = Subscription(source="lines", stream="default", grouping="fields", fields=tuple(fields))
    codec = PackCodec(stream)
    choose, choose_rows, *_ = chooser(subscription, tasks, stream.field_names, 0)
    columns = zip(*rows, strict=True) if rows else [()] * len(codec.schema)
    arrays = [pa.array(list(values), type_) for values, type_ in zip(columns, codec.schema.types, strict=True)]
    batch = codec.batch(pa.Table.from_arrays(arrays, schema=codec.schema))
    by_columns = [-1] * len(rows)
    for task, share in choose_rows(codec, batch):
        for row in np.arange(len(rows))[share].tolist():
            assert by_columns[row] == -1
            by_columns[row] = task
    places = [stream.field_names.index(name) for name in fields]
    for row in range(0, len(rows), 1 + len(rows) // 10_000):
        values = rows[row]
        key = grouping_key([values[place] for place in places])
        task = xxhash.xxh64_intdigest(key, 42) % tasks
        assert (by_columns[row], choose(values)) == (task, (task,))
