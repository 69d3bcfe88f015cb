"""A Spark bolt on a real broker: whatever `transform` does, every tree completes, or fails with a message."""

from collections import Counter
from pathlib import Path
from typing import Any

import pandas
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas import functions as pandas_functions

from spark_jobs import mark_failed, merge_tracking
from tests.kafka.sdk_rig import headers_of, value
from tests.spark.rig import Stage, next_id, topology_name
from tests.spark.topologies import LINE, WORD, manifest_of, subscription
from tuple_tree.anchors import unpack_anchors
from tuple_tree.manifest import BoltManifest, Manifest, SpoutManifest
from tuple_tree.routing import fields_task
from tuple_tree.streams import declare

LINES = [" ".join(["the", "the", *[f"w{number % 7}", f"x{number % 3}"] * (number % 4)]) for number in range(300)]
WORDS = Counter(word for line in LINES for word in line.split())


@pytest.fixture
def stage(bootstrap_servers: str, tmp_path: Path) -> Stage:
    return Stage(bootstrap_servers, manifest_of(topology_name(), ack_partitions=3), tmp_path)


def explode(rows: DataFrame) -> DataFrame:
    return rows.select(F.explode(F.split("line", " ")).alias("word"), "_tracking")


def test_rows_that_are_exploded_are_all_children(spark: SparkSession, stage: Stage) -> None:
    roots = stage.send([(line,) for line in LINES])
    stage.drain(spark, explode)
    assert Counter(word for (word,) in stage.values()) == WORDS

    edges = [edge for record in stage.received() for edge in unpack_anchors(headers_of(record)["anchors"]).values()]
    assert len(set(edges)) == len(edges) == WORDS.total(), "equal words of one line have edges of their own"
    for record in stage.received():
        assert record.partition() == fields_task(value_of_key(record), 2)
        assert headers_of(record)["source"] == b"split/default"

    before = stage.outcome()
    assert not before.acked
    assert before.open == len(roots)
    stage.ack_received()
    after = stage.outcome()
    assert after.acked == set(roots)
    assert after.open == 0
    assert after.counters.repeated_batches == 0


def value_of_key(record: Any) -> bytes:
    key = record.key()
    assert isinstance(key, bytes)
    return key


def only_long(rows: DataFrame) -> DataFrame:
    return rows.where(F.length("line") > 12).select(F.upper("line").alias("word"), "_tracking")


def counted(rows: DataFrame) -> DataFrame:
    grouped = explode(rows).groupBy("word").agg(F.count("*").alias("n"), merge_tracking().alias("_tracking"))
    return grouped.select(F.concat_ws("=", "word", "n").alias("word"), "_tracking")


def joined(rows: DataFrame) -> DataFrame:
    static = rows.sparkSession.sql("select * from values ('w1', 'one'), ('w1', 'uno'), ('w2', 'two') t(word, meaning)")
    return explode(rows).join(static, "word").select(F.col("meaning").alias("word"), "_tracking")


def united(rows: DataFrame) -> DataFrame:
    words = rows.select(F.col("line").alias("word"), "_tracking")
    return words.unionByName(words)


def shuffled(rows: DataFrame) -> DataFrame:
    return explode(rows).repartition(3)


def pandas_udf(rows: DataFrame) -> DataFrame:
    def reverse(lines: Any) -> Any:
        return lines.str[::-1]

    reverse.__annotations__ = {"lines": pandas.Series, "return": pandas.Series}
    # Its types follow the annotations, which are not known here.
    make: Any = pandas_functions.pandas_udf
    return rows.select(make(reverse, "string")("line").alias("word"), "_tracking")


def renamed(rows: DataFrame) -> DataFrame:
    return rows.select(F.col("line").alias("word"), "_tracking")


both = pytest.mark.parametrize("transform", [explode, renamed], ids=["several rows of one", "one row of each"])

CASES = {
    renamed: Counter(LINES),
    only_long: Counter(line.upper() for line in LINES if len(line) > 12),
    counted: Counter(f"{word}={count}" for word, count in WORDS.items()),
    joined: Counter({"one": WORDS["w1"], "uno": WORDS["w1"], "two": WORDS["w2"]}),
    united: Counter(LINES * 2),
    shuffled: WORDS,
    pandas_udf: Counter(line[::-1] for line in LINES),
}


@pytest.mark.parametrize("transform", CASES, ids=lambda transform: transform.__name__)
def test_transforms_of_all_kinds(spark: SparkSession, stage: Stage, transform: Any) -> None:
    roots = stage.send([(line,) for line in LINES])
    stage.drain(spark, transform)
    assert Counter(word for (word,) in stage.values()) == CASES[transform]
    anchored = {root for record in stage.received() for root in unpack_anchors(headers_of(record)["anchors"])}
    before = stage.outcome()
    assert before.acked == set(roots) - anchored, "what was dropped is acked at once"
    stage.ack_received()
    after = stage.outcome()
    assert after.acked == set(roots)
    assert after.open == 0


@both
def test_several_roots_and_a_root_in_several_inputs(spark: SparkSession, stage: Stage, transform: Any) -> None:
    one, two, three = next_id(), next_id(), next_id()
    first, second, third = {one: next_id(), two: next_id()}, {two: next_id()}, {three: next_id(), one: next_id()}
    stage.init([{one: first[one] ^ third[one], two: first[two] ^ second[two], three: third[three]}])
    for edges, line in ((first, b"\x06a b"), (second, b"\x06b b"), (third, b"\x02c")):
        stage.send_record(line, edges)
    stage.flush()
    stage.drain(spark, transform)
    stage.ack_received()
    assert stage.outcome().acked == {one, two, three}


@both
def test_marked_rows_fail_their_trees(spark: SparkSession, stage: Stage, transform: Any) -> None:
    def failing(rows: DataFrame) -> DataFrame:
        found = F.regexp_substr("word", F.lit("w1"))
        return mark_failed(transform(rows), found.isNotNull(), F.concat(F.lit("no "), found))

    roots = stage.send([(line,) for line in LINES])
    written = stage.drain(spark, failing).written(0)
    assert written is not None
    stage.ack_received()
    outcome = stage.outcome()
    expected = {root for root, line in zip(roots, LINES, strict=True) if "w1" in line.split()}
    assert outcome.failed == dict.fromkeys(expected, "no w1")
    assert outcome.acked == set(roots) - expected
    # Where an input has several rows, nobody knows how many inputs those are of that failed.
    of_one = transform is renamed
    assert written.acked == (len(outcome.acked) if of_one else None)
    assert (written.failed == len(expected)) == of_one


def test_rows_that_cannot_be_encoded_fail_their_trees(spark: SparkSession, stage: Stage) -> None:
    roots = stage.send([("fine",), ("",)])
    written = stage.drain(
        spark, lambda rows: rows.where("line <> 'x'").select(F.nullif("line", F.lit("")).alias("word"), "_tracking")
    ).written(0)
    assert written is not None
    assert (written.rows, written.emitted, written.acked, written.failed) == (2, 1, 1, 1)
    stage.ack_received()
    outcome = stage.outcome()
    assert outcome.acked == {roots[0]}
    assert outcome.failed == {roots[1]: "field word of stream default is null, which it may not be"}


@both
def test_bad_inputs(spark: SparkSession, stage: Stage, transform: Any) -> None:
    edges = [*[{next_id(): next_id()} for _ in range(3)], {next_id(): next_id(), next_id(): next_id()}]
    stage.init(edges)
    stage.send_record(b"\x02a", {})
    stage.send_record(b"\x02b", b"x" * 17)
    stage.send_record(b"\x02c", edges[0], source=None)
    stage.send_record(b"\x02d", edges[1], source="nobody/default")
    stage.send_record(None, edges[2])
    stage.send_record(b"\x0ae", edges[3])
    stage.flush()
    stage.drain(spark, transform)
    assert stage.values() == [("a",)], "an untracked tuple passes"
    assert "anchors" not in headers_of(stage.received()[0])
    reasons = {}
    for record in stage.dead_letters():
        headers = headers_of(record)
        reasons[headers["dead-letter.reason"].decode()] = record.value()
        assert headers["dead-letter.topic"] == f"{stage.manifest.topology}.tuples.split".encode()
        assert headers["dead-letter.by"] == b"split/" + headers["dead-letter.partition"]
        assert b"dead-letter" not in headers["dead-letter.detail"]
    assert reasons == {
        "ragged-anchors": b"\x02b",
        "no-source": b"\x02c",
        "unknown-source": b"\x02d",
        "no-payload": None,
        "bad-payload": b"\x0ae",
    }
    outcome = stage.outcome()
    assert set(outcome.failed) == set(stage.roots)
    assert all(message.startswith("split: dead letter, ") for message in outcome.failed.values())


def test_groupings_codecs_and_streams(spark: SparkSession, bootstrap_servers: str, tmp_path: Path) -> None:
    """A bolt with two sources of different codecs and two streams, each with several recipients."""
    long_words = declare({"word": str, "length": int}, name="long", codec="json")
    raw = declare("raw", codec="bytes")
    receivers = {"shuffled": "shuffle", "keyed": "fields", "one": "global", "copied": "all"}
    manifest = Manifest.of(
        topology=topology_name(),
        ack_partitions=2,
        max_tree_age_ms=300_000,
        components=(
            SpoutManifest(name="lines", streams=(LINE,)),
            SpoutManifest(name="bytes", streams=(raw,)),
            BoltManifest(
                name="split",
                streams=(WORD, long_words),
                subscriptions=(subscription("lines"), subscription("bytes")),
            ),
            *[
                BoltManifest(
                    name=name,
                    tasks=3,
                    subscriptions=(
                        subscription("split", grouping, *(["word"] if grouping == "fields" else [])),  # type: ignore[arg-type]
                        *([subscription("split", stream="long")] if name == "one" else []),
                    ),
                )
                for name, grouping in receivers.items()
            ],
        ),
    )
    stage = Stage(bootstrap_servers, manifest, tmp_path)

    def transform(rows: DataFrame) -> DataFrame:
        text = F.coalesce("line", F.decode("raw", "UTF-8"))
        words = rows.select(F.explode(F.split(text, " ")).alias("word"), "_source", "_tracking")
        length = F.length("word")
        stream = F.when(F.col("_source") == "bytes/default", F.lit("default")).when(length > 2, "long")
        return words.withColumns({"length": length, "_stream": F.coalesce(stream, F.lit("default"))})

    roots = stage.send([("the a",), ("quick b",)]) + stage.send([(b"brown fox",)], source="bytes")
    stage.drain(spark, transform)
    expected = ["a", "b", "brown", "fox"]
    for name in ("shuffled", "keyed"):
        assert sorted(word for (word,) in stage.values(name)) == expected
    assert sorted(word for (word,) in stage.values("copied")) == sorted(expected * 3)
    assert {record.partition() for record in stage.received("copied")} == {0, 1, 2}
    assert {headers_of(record)["source"] for record in stage.received("one")} == {b"split/default", b"split/long"}
    for record in stage.received("keyed"):
        assert record.partition() == fields_task(value_of_key(record), 3)
    long = [record for record in stage.received("one") if headers_of(record)["source"] == b"split/long"]
    assert sorted(map(value, long)) == [b'{"word":"quick","length":5}', b'{"word":"the","length":3}']
    assert {record.partition() for record in stage.received("one") if record not in long} == {0}
    stage.ack_received(*receivers)
    assert stage.outcome().acked == set(roots)


def test_a_leaf_acks_and_runs_what_its_function_does(
    spark: SparkSession, bootstrap_servers: str, tmp_path: Path
) -> None:
    stage = Stage(bootstrap_servers, manifest_of(topology_name(), counts={}), tmp_path)
    seen = spark.sparkContext.accumulator(0)

    @F.udf("string")
    def noted(line: str) -> str:
        seen.add(1)
        return line

    roots = stage.send([(f"line {number}",) for number in range(20)])
    stage.drain(spark, lambda rows: rows.select(noted("line").alias("word"), "_tracking"))
    assert seen.value == 20
    assert stage.outcome().acked == set(roots)


def test_an_untracked_topology(spark: SparkSession, bootstrap_servers: str, tmp_path: Path) -> None:
    stage = Stage(bootstrap_servers, manifest_of(topology_name(), guarantee="at_most_once"), tmp_path)
    stage.send_record(b"\x06a b", {1: 2})
    stage.flush()
    stage.drain(spark, explode)
    assert sorted(stage.values()) == [("a",), ("b",)]
    assert all(set(headers_of(record)) == {"source"} for record in stage.received())
