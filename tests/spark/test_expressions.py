"""The expressions against `tuple_tree`'s Python."""

import itertools
import uuid
from typing import Any

import numpy as np
import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from spark_jobs.ack_batches import ENTRIES, FAILS, AckLanes
from spark_jobs.anchors import child_headers, header, one_pair, roots_of, several_pairs
from spark_jobs.ids import edge_of, id_digits, id_of, seed_of, unsigned_mod
from spark_jobs.payloads import encoded, fits, problem_of, read_fields, read_payload, schema_of
from spark_jobs.routing import fields_task, grouping_key
from spark_jobs.tracking import TRACKING_TYPE, mark_failed, merge_tracking
from tests.spark.topologies import manifest_of
from tuple_tree import routing
from tuple_tree.anchors import pack_anchors, unpack_anchors
from tuple_tree.codec import decode_ack_batch
from tuple_tree.ids import random_ids, signed, unsigned
from tuple_tree.messages import AckBatch, SpoutTask
from tuple_tree.streams import Stream, declare, payload_codec

EDGES_OF_64_BITS = (0, 1, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 1, 0x0102030405060708)
IDS = [*EDGES_OF_64_BITS, *itertools.islice(random_ids(), 200)]


def one(rows: DataFrame, column: Column) -> list[Any]:
    return [row[0] for row in rows.select(column).collect()]


@pytest.fixture(scope="module")
def ids(spark: SparkSession) -> DataFrame:
    rows = [(signed(id_), bytearray(id_.to_bytes(8, "big"))) for id_ in IDS]
    return spark.createDataFrame(rows, "id bigint, bytes binary").coalesce(1)


def test_ids_become_bytes_and_back(ids: DataFrame) -> None:
    assert one(ids, id_of(F.col("bytes"))) == [signed(id_) for id_ in IDS]
    assert [bytes(read) for read in one(ids, F.unhex(id_digits(F.col("id"))))] == [
        id_.to_bytes(8, "big") for id_ in IDS
    ]


@pytest.mark.parametrize("divisor", [1, 2, 3, 7, 8, 12, 1000])
def test_the_remainder_is_that_of_the_unsigned_id(ids: DataFrame, divisor: int) -> None:
    assert one(ids, unsigned_mod(F.col("id"), divisor)) == [routing.acker_partition(id_, divisor) for id_ in IDS]


def test_edges_are_a_function_of_their_parts_and_never_zero(ids: DataFrame) -> None:
    edges = one(ids, edge_of(seed_of("query", "topic"), F.col("id")))
    assert edges == one(ids, edge_of(seed_of("query", "topic"), F.col("id")))
    assert len({*edges, *one(ids, edge_of(seed_of("another", "topic"), F.col("id")))}) == 2 * len(IDS)
    # XXH64 of this long is zero.
    zero = one(ids.limit(1), F.xxhash64(F.lit(0).cast("bigint")))[0]
    assert zero != 0
    assert 0 not in edges


@pytest.mark.parametrize(
    "values", [("Kafka",), ("né ü 😀",), ("",), (None,), (-42,), (True,), (b"\x00\xff",), ("de", 7), (None, None, "x")]
)
def test_keys_and_tasks_of_a_fields_grouping(spark: SparkSession, values: tuple[Any, ...]) -> None:
    columns = [F.lit(value) if value is not None else F.lit(None).cast("string") for value in values]
    key = grouping_key(columns)
    expected = routing.grouping_key(values)
    rows = spark.range(1)
    assert [bytes(read) for read in one(rows, key)] == [expected]
    for tasks in (1, 2, 3, 8, 12):
        assert one(rows, fields_task(key, tasks)) == [routing.fields_task(expected, tasks)]


ANCHORS = [
    None,
    b"",
    pack_anchors({5: 2**63}),
    pack_anchors({2**64 - 1: 7, 3: 9}),
    pack_anchors({1: 2}) * 3,
    pack_anchors(dict(zip(random_ids(), range(1, 50), strict=False))),
]


def test_anchors_are_read_and_written(spark: SparkSession) -> None:
    rows = spark.createDataFrame(
        [(number, value and bytearray(value)) for number, value in enumerate(ANCHORS)], "n int, anchors binary"
    )
    rows = rows.select("n", one_pair(F.col("anchors")).alias("one"), several_pairs(F.col("anchors")).alias("several"))
    rows = rows.withColumns({name: F.col("one")[name].cast("bigint") for name in ("root", "edge")}).orderBy("n")
    for anchors, row in zip(ANCHORS, rows.collect(), strict=True):
        read: dict[int, int] = {}
        for root, edge in row["several"] or ([] if row["one"] is None else [(row["root"], row["edge"])]):
            read[unsigned(root)] = read.get(unsigned(root), 0) ^ unsigned(edge)
        assert read == (unpack_anchors(anchors) if anchors else {})

    roots = rows.select("n", roots_of(F.col("root"), F.col("several")).alias("roots"))
    one_root = F.when(F.size("roots") == 1, F.get("roots", F.lit(0)))
    several = F.when(F.size("roots") > 1, F.col("roots"))
    written = roots.select(
        child_headers(one_root, several, F.lit(77).cast("bigint"), F.lit("split/default")).alias("headers")
    )
    for anchors, headers in zip(ANCHORS, one(written, F.col("headers")), strict=True):
        expected = dict.fromkeys(unpack_anchors(anchors or b""), 77)
        said = {key: bytes(value) for key, value in headers}
        assert said.pop("source") == b"split/default"
        if expected:
            assert unpack_anchors(said.pop("anchors")) == expected
        assert not said


def test_the_last_header_of_a_name_counts(spark: SparkSession) -> None:
    rows = spark.sql(
        "select array(struct('a' key, X'01' value), struct('b' key, X'02' value), struct('a' key, X'03' value)) h"
    )
    found = [one(rows, header(F.col("h"), name))[0] for name in ("a", "b", "c")]
    assert [read and bytes(read) for read in found] == [b"\x03", b"\x02", None]
    assert one(
        spark.sql("select cast(null as array<struct<key: string, value: binary>>) h"), header(F.col("h"), "a")
    ) == [None]


MIXED = declare({"text": str, "count": int, "share": float, "fine": bool, "raw": bytes, "maybe": ["null", "string"]})
VALUES = [("né", -3, 0.25, True, b"\x00\xff", None), ("", 2**62, -1.5, False, b"", "said")]
JSON = declare({"text": str, "count": int, "share": float, "fine": bool, "maybe": ["null", "string"]}, codec="json")
JSON_VALUES = [(*values[:4], values[5]) for values in VALUES]
BYTES = declare("raw", codec="bytes")


@pytest.mark.parametrize(
    ("stream", "values"),
    [(MIXED, VALUES), (JSON, JSON_VALUES), (BYTES, [(b"\x00\xff",)])],
    ids=["avro", "json", "bytes"],
)
def test_payloads_are_those_of_the_sdk(spark: SparkSession, stream: Stream, values: list[tuple[Any, ...]]) -> None:
    codec, schema = payload_codec(stream), schema_of(spark, stream)
    rows = spark.createDataFrame([(bytearray(codec.encode(each)),) for each in values], "payload binary").coalesce(1)
    read = rows.select(read_payload(F.col("payload"), schema).alias("read")).select(
        read_fields(F.col("read"), schema).alias("fields")
    )
    got = [tuple(bytes(v) if isinstance(v, bytearray) else v for v in row) for row in one(read, F.col("fields"))]
    assert got == values
    fields = [F.col("fields")[name] for name in schema.names]
    assert one(read, problem_of(fields, schema)) == [None] * len(values)
    assert [codec.decode(bytes(each)) for each in one(read, encoded(fields, schema))] == values


@pytest.mark.parametrize(
    ("stream", "payload"),
    [
        (MIXED, b""),
        (MIXED, b"\x02"),
        (MIXED, b"\xff\xff\xff\xff\x0f"),
        (JSON, b"nonsense"),
        (JSON, b"[1, 2]"),
        (JSON, b'{"text": "x"}'),
        (JSON, b'{"text": "x", "count": "y", "share": 1.0, "fine": true, "maybe": null}'),
        (JSON, b'{"text": "x", "count": 1, "share": NaN, "fine": true, "maybe": null}'),
    ],
)
def test_payloads_that_are_not_the_streams(spark: SparkSession, stream: Stream, payload: bytes) -> None:
    schema = schema_of(spark, stream)
    rows = spark.createDataFrame([(bytearray(payload),)], "payload binary")
    read = rows.select(read_payload(F.col("payload"), schema).alias("read"))
    assert one(read, read_fields(F.col("read"), schema).isNull()) == [True]


def test_a_payload_whose_fields_are_all_null_is_one(spark: SparkSession) -> None:
    stream = declare({"a": ["null", "string"], "b": ["null", "long"]})
    schema = schema_of(spark, stream)
    rows = spark.createDataFrame([(bytearray(payload_codec(stream).encode((None, None))),)], "payload binary")
    read = rows.select(read_payload(F.col("payload"), schema).alias("read"))
    assert one(read, read_fields(F.col("read"), schema)) == [(None, None)]


def test_what_cannot_be_encoded_is_said(spark: SparkSession) -> None:
    schema = schema_of(spark, JSON)
    rows = spark.sql(
        "select cast(null as string) text, 1L count, double('NaN') share, true fine, cast(null as string) maybe"
    )
    assert "text of stream default is null" in one(rows, problem_of([F.col(n) for n in schema.names], schema))[0]
    rows = rows.withColumn("text", F.lit("x"))
    assert "share of stream default is no number" in one(rows, problem_of([F.col(n) for n in schema.names], schema))[0]


def test_types_that_fit(spark: SparkSession) -> None:
    types = {f.name: f.dataType for f in spark.sql("select 1 i, 1L l, 'x' s, double(1) d, array(1) a").schema}
    assert fits(types["i"], types["l"])
    assert fits(types["i"], types["d"])
    assert not fits(types["l"], types["i"])
    assert not fits(types["s"], types["l"])
    assert fits(types["a"], types["a"])


def test_merged_tracking_knows_all_roots_whatever_their_order(spark: SparkSession) -> None:
    tracking = [("a", 1, [10, 11]), ("a", 2, [11, -12]), ("b", 1, [10, 11]), ("a", 3, []), ("b", 1, [10, 11])]
    rows = [(word, (id_, roots, None)) for word, id_, roots in tracking]
    results = []
    for order in (rows, rows[::-1]):
        merged = spark.createDataFrame(order, f"word string, _tracking {TRACKING_TYPE}").groupBy("word")
        got = merged.agg(merge_tracking().alias("_tracking")).collect()
        results.append({row["word"]: row["_tracking"] for row in got})
    assert results[0] == results[1]
    assert results[0]["a"]["roots"] == [-12, 10, 11]
    assert results[0]["b"]["roots"] == [10, 11]


def test_marks_of_failed_rows(spark: SparkSession) -> None:
    rows = spark.sql("select * from values (1), (2), (null) t(n)")
    rows = mark_failed(mark_failed(rows, F.col("n") == 1, "one"), F.col("n") < 3, F.concat(F.lit("n="), F.col("n")))
    assert [row["_fail"] for row in rows.orderBy("n").collect()] == [None, "one", "n=2"]


def batches_of(records: DataFrame) -> dict[int, list[AckBatch]]:
    found: dict[int, list[AckBatch]] = {}
    for row in records.collect():
        found.setdefault(row["partition"], []).append(decode_ack_batch(bytes(row["value"])))
    return found


@pytest.mark.parametrize("lanes", [1, 3])
def test_acks_are_packed_into_lanes(spark: SparkSession, lanes: int) -> None:
    session = uuid.uuid4().bytes
    manifest = manifest_of("t", ack_partitions=3)
    packing = AckLanes(manifest, "split", session, lanes)
    count = 6 * ENTRIES
    entries = spark.range(2 * count).select(
        F.xxhash64(F.col("id") % count).alias("root"),
        F.xxhash64("id", F.lit("val")).alias("val"),
        F.when(F.col("id") % 10 == 5, F.lit("x" * 600)).alias("message"),
    )
    expected: dict[int, int] = {}
    failed = set()
    fails = 0
    for root, val, message in entries.collect():
        expected[unsigned(root)] = expected.get(unsigned(root), 0) ^ unsigned(val)
        if message is not None:
            failed.add(unsigned(root))
            fails += 1
    runs = [
        {
            (row["partition"], batch.writer, batch.sequence): {*batch.ack_roots.tolist(), *batch.fail_roots.tolist()}
            for row in packing.acks(9, rows, count, fails).collect()
            for batch in [decode_ack_batch(bytes(row["value"]))]
        }
        for rows in (entries, entries.orderBy("val"))
    ]
    assert runs[0] == runs[1]

    records = packing.acks(9, entries, count, fails)
    acked: dict[int, int] = {}
    told = set()
    for partition, batches in batches_of(records).items():
        last: dict[str, int] = {}
        for batch in batches:
            assert batch.session == session
            assert batch.sequence > last.get(batch.writer, 0)
            assert batch.sequence >> 20 == 9
            last[batch.writer] = batch.sequence
            assert len(batch.ack_roots) <= 2 * ENTRIES
            assert len(batch.fail_roots) <= 2 * FAILS
            assert (
                np.concatenate([batch.ack_roots, batch.fail_roots]).astype(np.uint64) % np.uint64(3) == partition
            ).all()
            acked.update(zip(batch.ack_roots.tolist(), batch.ack_vals.tolist(), strict=True))
            told.update(batch.fail_roots.tolist())
            assert {*batch.fail_messages} <= {"x" * 500}
        assert set(last) == set(packing.writers())
    assert told == failed
    assert acked == {root: val for root, val in expected.items() if root not in failed}


def test_inits_and_openings(spark: SparkSession) -> None:
    packing = AckLanes(manifest_of("t", ack_partitions=2), "lines", b"s" * 16)
    entries = spark.range(50).select(F.xxhash64("id").alias("root"), F.col("id").alias("val"))
    spout = SpoutTask("t.notices.lines", 0, 30_000)
    batches = [batch for found in batches_of(packing.inits(0, entries, 50, spout)).values() for batch in found]
    assert sum(len(batch.init_roots) for batch in batches) == 50
    assert {batch.spout for batch in batches} == {spout}
    opened = batches_of(packing.openings(spark))
    assert sorted(opened) == [0, 1]
    assert all(batch.opens and batch.sequence == 0 for found in opened.values() for batch in found)
