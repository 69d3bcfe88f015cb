"""Routing: acker partitions, fields groupings, and the XXH64 values that other languages must get."""

import json
from pathlib import Path
from typing import Any

import pytest
import xxhash

from tuple_tree.routing import HASH_SEED, acker_partition, fields_task, grouping_key, partial_key_tasks

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
