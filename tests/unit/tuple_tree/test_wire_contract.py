"""The code keeps the promises of `schemas/README.md` to other languages."""

from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from tests.manifests import counting, manifest, spout
from tests.pages import ROOT
from tuple_tree.anchors import ANCHOR_COUNTS_HEADER, ANCHORS_HEADER, AnchorColumns
from tuple_tree.arrow_packs import PackCodec
from tuple_tree.edge_runs import joined
from tuple_tree.edges import edge
from tuple_tree.identities import IdentityColumns, source_hash
from tuple_tree.messages import ACK_BATCH, NOTICE_BATCH, WIRE_REASONS, FailReason, schema_directory
from tuple_tree.names import TOPOLOGIES_TOPIC
from tuple_tree.positions import Position, positional_root, topic_key
from tuple_tree.streams import declare
from tuple_tree.topics import topic_specs

_TEXT: Final = (ROOT / "schemas" / "README.md").read_text()
_DASH: Final = "\N{EN DASH}"


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
    for name, file, _, fingerprint, header in rows:
        assert (schema_directory() / Path(file.split()[0]).name).is_file()
        assert bytes.fromhex(header) in codecs[name].headers
        assert int(fingerprint, 16).to_bytes(8, "little") == bytes.fromhex(header)[2:]
    assert {row[4] for row in rows} == {header.hex() for codec in codecs.values() for header in codec.headers}


def test_fail_reasons_are_on_the_pages() -> None:
    page, schema = " ".join(_TEXT.split()), (schema_directory() / "notice_batch.avsc").read_text()
    for reason in WIRE_REASONS:
        assert f" {reason:d} {reason.word}" in page
        assert f" {reason:d} {reason.word}" in schema
    concepts = (ROOT / "docs" / "concepts.md").read_text()
    assert [reason for reason in FailReason if f"\n| `{reason.word}` |" not in concepts] == []


def test_the_arrow_types_of_fields() -> None:
    rows = _table("Avro type | Arrow type")
    assert (rows[-2][0], rows[-1][0]) == ("a union of null and one of these", "any other")
    for avro, arrow in rows[:-2]:
        type_, _, logical = avro.partition(", ")
        type_of_field = {"type": type_, "logicalType": logical} if logical else type_
        schema = PackCodec(declare({"plain": type_of_field, "nullable": ["null", type_of_field]})).schema
        assert [str(field.type) for field in schema] == [arrow, arrow]
        assert [field.nullable for field in schema] == [False, True]
    (other,) = PackCodec(declare({"other": {"type": "array", "items": "long"}})).schema
    assert (other.type, other.nullable) == (pa.binary(), False)


def test_the_bytes_of_a_pack() -> None:
    pack = b""
    for place, part, _ in _table("bytes | hex"):
        begin, end = map(int, place.split(_DASH))
        assert begin == len(pack)
        pack += bytes.fromhex(part)
        assert end + 1 == len(pack)
    assert PackCodec(declare({"word": "string", "count": "long"})).decode(pack) == ([("to", 2), ("be", 1)], {})
    metadata = int.from_bytes(pack[4:8], "little")
    assert pack[8 + metadata + 16 :][:4] == b"tobe"


def test_the_anchors_of_tuples() -> None:
    rows = _table("seed | first number")
    assert len(rows) >= 3
    for seed, first, *tuples, anchors, counts in rows:
        roots = [[int(root) for root in cell.split(",") if root != _DASH] for cell in tuples]
        named = {ANCHORS_HEADER: anchors, ANCHOR_COUNTS_HEADER: counts}
        headers = {name: bytes.fromhex(value) for name, value in named.items() if value != _DASH}
        flat = np.array([root for each in roots for root in each], np.uint64)
        starts = np.cumsum([0, *map(len, roots)])
        assert dict(AnchorColumns(flat, starts, int(seed, 16), int(first)).headers()) == headers
        read = AnchorColumns.read(headers.get(ANCHORS_HEADER), headers.get(ANCHOR_COUNTS_HEADER), len(tuples))
        assert (read.roots.tolist(), read.counts.tolist()) == (flat.tolist(), [len(each) for each in roots])
        assert not headers or (read.seed, read.first) == (int(seed, 16), int(first))


def test_the_edges_of_seeds() -> None:
    rows = _table("seed | number")
    assert len(rows) >= 5
    for seed, number, expected in rows:
        assert edge(int(seed, 16), int(number)) == int(expected, 16)


def test_the_paths_of_identities() -> None:
    rows = _table("path | source")
    assert len(rows) >= 3
    for path, source, expected in rows:
        sent = IdentityColumns(np.zeros(1, np.uint64), np.array([int(path, 16)], np.uint64))
        assert sent.received(source_hash(source.encode())).paths.tolist() == [int(expected, 16)]


def test_the_runs_of_vals() -> None:
    rows = _table("runs | written vals")
    assert len(rows) >= 3
    for runs, *columns in rows:
        written, vals = ([int(val, 16) for val in cell.split(",") if val != _DASH] for cell in columns)
        read = joined(bytes.fromhex(runs), np.array(written, np.uint64), len(vals), "ack_runs")
        assert read.tolist() == vals


def test_the_bits_of_positional_roots() -> None:
    assert [int(row[1]) for row in _table("field | bits")] == [6, 12, 40, 6]
    assert f"{positional_root(Position(3, 17, 123456789, 2), 0, 3):016x}" in _TEXT


def test_the_key_of_a_topic() -> None:
    (row,) = _table("topic id")
    assert topic_key(row[0]) == int(row[1], 16)


def test_topics() -> None:
    described = manifest(
        spout("S", tasks=2), counting("B", "S", tasks=3, windows="close"), topology="T", ack_partitions=5
    )
    (answering,) = described.bolts
    described = described.model_copy(
        update={"components": (*described.spouts, answering.model_copy(update={"answers": True}))}
    )
    partitions = {"P": 5, "tasks of the spout": 2, "tasks of the bolt": 3, "1": 1}
    documented = {
        row[0].partition(",")[0].strip("`").format(topology="T", spout="S", bolt="B"): (
            partitions[row[1]],
            dict(setting.split("=") for setting in row[2].split(", ")),
        )
        for row in _table("topic")
    }
    assert documented == {spec.name: (spec.partitions, spec.required) for spec in topic_specs(described)}
    assert TOPOLOGIES_TOPIC in documented
