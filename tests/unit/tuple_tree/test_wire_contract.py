"""What `schemas/README.md` promises to other languages is what the code does."""

from pathlib import Path
from typing import Final

import xxhash

from tests.manifests import bolt, manifest, spout
from tuple_tree.codec import ACK_BATCH, NOTICE_BATCH, schema_directory
from tuple_tree.ids import Position, position_of, positional_root, topic_key
from tuple_tree.names import TOPOLOGIES_TOPIC
from tuple_tree.routing import fields_task
from tuple_tree.topics import topic_specs

_TEXT: Final = (Path(__file__).parents[3] / "schemas" / "README.md").read_text()
_HASH_SEED: Final = 42


def _table(columns: str) -> list[list[str]]:
    """The rows of the table whose header begins with these columns; backticks are dropped."""
    lines = iter(_TEXT.splitlines())
    for line in lines:
        if line.startswith(f"| {columns} |"):
            break
    next(lines)
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        rows.append([cell.strip().replace("`", "") for cell in line.strip("|").split("|")])
    assert rows, f"no table begins with the columns {columns!r}"
    return rows


def test_fingerprints_are_those_of_avro_little_endian() -> None:
    codecs = {f"io.kafka_acker.{codec.name}": codec for codec in (ACK_BATCH, NOTICE_BATCH)}
    rows = _table("schema")
    assert {row[0] for row in rows} == set(codecs)
    for name, file, fingerprint, header in rows:
        assert (schema_directory() / Path(file).name).is_file()
        assert int(fingerprint, 16).to_bytes(8, "little") == codecs[name].fingerprint
        assert bytes.fromhex(header) == codecs[name].header


def test_positional_roots_are_the_feistel_network_that_the_page_spells_out() -> None:
    bits = [int(row[1]) for row in _table("field | bits")]
    assert bits == [6, 12, 40, 6]
    rows = _table("spout | partition")
    assert len(rows) >= 5
    for row in rows:
        word = 0
        for width, value in zip(bits, row[:4], strict=True):
            word = word << width | int(value)
        left, right = word >> 32, word & 0xFFFF_FFFF
        for i in range(4):
            hashed = xxhash.xxh64_intdigest((right | i << 32).to_bytes(8, "little"), _HASH_SEED)
            left, right = right, left ^ (hashed & 0xFFFF_FFFF)
        position, root = Position(*map(int, row[:4])), int(row[4], 16)
        assert left << 32 | right == positional_root(position, 0) == root
        assert position_of(root, 0) == position
        assert root % 8 == int(row[5])


def test_the_key_of_a_topic() -> None:
    (row,) = _table("topic id")
    assert topic_key(row[0]) == int(row[1], 16)


def test_fields_grouping() -> None:
    rows = _table("key (hex)")
    assert len(rows) >= 5
    for key_hex, digest, of_3, of_8 in rows:
        key = b"" if key_hex == "(empty)" else bytes.fromhex(key_hex)
        assert xxhash.xxh64_intdigest(key, _HASH_SEED) == int(digest, 16)
        assert (fields_task(key, 3), fields_task(key, 8)) == (int(of_3), int(of_8))


def test_topics() -> None:
    described = manifest(spout("S", tasks=2), bolt("B", "S", tasks=3), topology="T", ack_partitions=5)
    partitions = {"P": 5, "tasks of the spout": 2, "tasks of the bolt": 3, "1": 1}
    said = {
        row[0].format(topology="T", spout="S", bolt="B"): (
            partitions[row[1]],
            dict(setting.split("=") for setting in row[2].split(", ")),
        )
        for row in _table("topic")
    }
    assert said == {spec.name: (spec.partitions, spec.required) for spec in topic_specs(described)}
    assert TOPOLOGIES_TOPIC in said
