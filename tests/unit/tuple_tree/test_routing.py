"""Routing: acker partitions, fields groupings, and the XXH64 values that other languages must get."""

import json
from pathlib import Path
from typing import Any

import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from tuple_tree.ids import signed, unsigned
from tuple_tree.routing import HASH_SEED, acker_partition, fields_task, grouping_key

_VECTORS: dict[str, Any] = json.loads((Path(__file__).parent / "vectors" / "routing.json").read_text())


@given(st.integers(0, 2**64 - 1), st.integers(1, 1000))
def test_the_root_is_read_as_unsigned(root: int, partitions: int) -> None:
    assert 0 <= acker_partition(root, partitions) < partitions
    assert acker_partition(unsigned(signed(root)), partitions) == acker_partition(root, partitions)


def test_a_root_above_the_signed_range() -> None:
    # The signed remainder of -1 would be -1, or 6 after correction.
    assert acker_partition(2**64 - 1, 7) == 1


# From the reference implementation's own documentation and test suites in other languages.
@pytest.mark.parametrize(
    ("text", "seed", "digest"),
    [
        (b"", 0, 0xEF46DB3751D8E999),
        (b"a", 0, 0xD24EC4F1A98C6E5B),
        (b"as", 0, 0x1C330FB2D66BE179),
        (b"asd", 0, 0x631C37CE72A97393),
        (b"asdf", 0, 0x415872F599CEA71E),
        (b"abc", 0, 0x44BC2CF5AD770999),
    ],
)
def test_the_hash_is_xxh64(text: bytes, seed: int, digest: int) -> None:
    assert xxhash.xxh64_intdigest(text, seed) == digest


@pytest.mark.parametrize("vector", _VECTORS["fields_grouping"], ids=lambda vector: vector["key_hex"] or "empty")
def test_pinned_tasks(vector: dict[str, Any]) -> None:
    key = grouping_key([bytes.fromhex(part) for part in vector["parts_hex"]])
    assert key.hex() == vector["key_hex"]
    digest = int(vector["xxh64"], 16)
    assert xxhash.xxh64_intdigest(key, HASH_SEED) == digest
    assert fields_task(key, 3) == vector["task_of_3"]
    assert fields_task(key, 8) == vector["task_of_8"]


def test_the_hash_is_read_as_unsigned() -> None:
    above = [vector for vector in _VECTORS["fields_grouping"] if int(vector["xxh64"], 16) >= 2**63]
    assert above, "the vectors must hold a hash that is negative when read as signed"


@pytest.mark.parametrize(
    ("values", "key"),
    [
        (["Kafka"], b"Kafka"),
        (["böse"], b"b\xc3\xb6se"),
        ([b"\x00\xff"], b"\x00\xff"),
        ([0], b"0"),
        ([-42], b"-42"),
        ([2**70], b"1180591620717411303424"),
        ([True], b"true"),
        ([False], b"false"),
        ([None], b""),
        (["de", 7], b"de\x1f7"),
        (["", None, True], b"\x1f\x1ftrue"),
        ([], b""),
    ],
)
def test_keys(values: list[object], key: bytes) -> None:
    assert grouping_key(values) == key


@pytest.mark.parametrize("value", [1.5, [1], {"a": 1}, (1,)])
def test_what_languages_print_differently_is_refused(value: object) -> None:
    for values in ([value], ["a", value]):
        with pytest.raises(TypeError, match=f"a {type(value).__name__} cannot be grouped by: a grouping field is"):
            grouping_key(values)


@given(st.binary(), st.integers(1, 100))
def test_a_task_is_one_of_the_tasks(key: bytes, tasks: int) -> None:
    assert 0 <= fields_task(key, tasks) < tasks


def test_keys_spread() -> None:
    counts = [0] * 8
    for number in range(8000):
        counts[fields_task(b"key-%d" % number, 8)] += 1
    # 99.9 % of fair draws lie below 24.3 with 7 degrees of freedom; the input is fixed, so this never flickers.
    assert sum((count - 1000) ** 2 / 1000 for count in counts) < 24.3
