"""A Spark bolt on a real broker: with any `transform`, every tree completes or fails, and none completes early."""

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from confluent_kafka import Message
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas import functions as pandas_functions

from spark_jobs import mark_failed, merge_tracking
from tests.kafka.sdk_rig import headers_of, value, write_in_transactions
from tests.packs import anchor_headers
from tests.spark.figures import last_figures
from tests.spark.rig import Stage, forget_commit, next_id, pairs_of, topology_name
from tests.spark.topologies import manifest_of, subscription
from tests.waiting import eventually
from tuple_tree.components import BoltManifest, SpoutManifest
from tuple_tree.manifest import Manifest
from tuple_tree.names import tuples_topic
from tuple_tree.payloads import decode_tuples, payload_codec
from tuple_tree.routing import fields_task, grouping_key
from tuple_tree.streams import declare

LINES = [" ".join(["the", "the", *[f"w{number % 7}", f"x{number % 3}"] * (number % 4)]) for number in range(60)]
WORDS = Counter(word for line in LINES for word in line.split())
# Several batches of acks for the one partition of the ack log.
MANY = 5_000


def explode(rows: DataFrame) -> DataFrame:
    return rows.select(F.explode(F.split("line", " ")).alias("word"), "_tracking")


def renamed(rows: DataFrame) -> DataFrame:
    return rows.select(F.col("line").alias("word"), "_tracking")


def only_long(rows: DataFrame) -> DataFrame:
    return renamed(rows.where(F.length("line") > 12))


def counted(rows: DataFrame) -> DataFrame:
    grouped = explode(rows).groupBy("word").agg(F.count("*").alias("n"), merge_tracking().alias("_tracking"))
    return grouped.select(F.concat_ws("=", "word", "n").alias("word"), "_tracking")


def joined(rows: DataFrame) -> DataFrame:
    static = rows.sparkSession.sql("select * from values ('w1', 'one'), ('w1', 'uno'), ('w2', 'two') t(word, meaning)")
    return explode(rows).join(static, "word").select(F.col("meaning").alias("word"), "_tracking")


def united(rows: DataFrame) -> DataFrame:
    return renamed(rows).unionByName(renamed(rows))


def cached(rows: DataFrame) -> DataFrame:
    return explode(rows).cache()


def checkpointed(rows: DataFrame) -> DataFrame:
    return explode(rows).localCheckpoint()


def from_rdd(rows: DataFrame) -> DataFrame:
    words = explode(rows)
    return rows.sparkSession.createDataFrame(words.rdd, words.schema)


def crossed(rows: DataFrame) -> DataFrame:
    return renamed(rows).crossJoin(rows.sparkSession.range(2)).drop("id")


def distinct(rows: DataFrame) -> DataFrame:
    return explode(rows).distinct()


def limited(rows: DataFrame) -> DataFrame:
    return explode(rows).limit(9)


def sampled(rows: DataFrame) -> DataFrame:
    return explode(rows).sample(0.5)


def nothing(rows: DataFrame) -> DataFrame:
    return explode(rows).where("false")


def arrow_function(rows: DataFrame) -> DataFrame:
    def twice(batches: Any) -> Any:
        for batch in batches:
            yield batch
            yield batch

    words = renamed(rows)
    return words.mapInArrow(twice, words.schema)


def pandas_udf(rows: DataFrame) -> DataFrame:
    def reverse(lines: Any) -> Any:
        return lines.str[::-1]

    reverse.__annotations__ = {"lines": pd.Series, "return": pd.Series}
    # Its types follow the annotations, which are not known here.
    make: Any = pandas_functions.pandas_udf
    return rows.select(make(reverse, "string")("line").alias("word"), "_tracking")


ANY = Counter[str]()
"""Which rows it makes is for Spark to choose."""

TRANSFORMS = {
    explode: WORDS,
    cached: WORDS,
    checkpointed: WORDS,
    from_rdd: WORDS,
    crossed: Counter(LINES * 2),
    distinct: Counter(word for line in LINES for word in set(line.split())),
    limited: ANY,
    sampled: ANY,
    nothing: Counter[str](),
    arrow_function: Counter(LINES * 2),
    only_long: Counter(line for line in LINES if len(line) > 12),
    counted: Counter(f"{word}={count}" for word, count in WORDS.items()),
    joined: Counter({"one": WORDS["w1"], "uno": WORDS["w1"], "two": WORDS["w2"]}),
    united: Counter(LINES * 2),
    pandas_udf: Counter(line[::-1] for line in LINES),
}
# Each of them is much like another one, or is in every other test.
LIKE_OTHERS = (explode, checkpointed, crossed, distinct, sampled, nothing)


@pytest.mark.parametrize(
    "transforms",
    [
        pytest.param([each for each in TRANSFORMS if each not in LIKE_OTHERS], id="some"),
        pytest.param(list(TRANSFORMS), id="all", marks=pytest.mark.exhaustive),
    ],
)
def test_transforms_of_all_kinds(
    spark: SparkSession, bootstrap_servers: str, tmp_path: Path, transforms: list[Any]
) -> None:
    """One micro-batch, whose rows go through one transform each."""
    lines, words = (declare({"kind": str, field: str}) for field in ("line", "word"))
    manifest = manifest_of(topology_name(), lines=lines, words=words, ack_partitions=3)
    stage = Stage(bootstrap_servers, manifest, tmp_path)

    def transform(rows: DataFrame) -> DataFrame:
        results: list[DataFrame] = [
            each(rows.where(F.col("kind") == each.__name__)).withColumn("kind", F.lit(each.__name__))
            for each in transforms
        ]
        first, *others = results
        for other in others:
            first = first.unionByName(other)
        return first

    sent = {each: stage.send([(each.__name__, line) for line in LINES]) for each in transforms}
    stage.drain(spark, transform)
    found = Counter(stage.values())
    for each in transforms:
        expected = TRANSFORMS[each]
        words_of = Counter({word: n for (kind, word), n in found.items() if kind == each.__name__})
        assert words_of == expected or expected is ANY, each.__name__
    waiting = stage.anchored()
    dropped = {root for roots in sent.values() for root in roots} - waiting
    kept = {only_long: ".{13}", joined: "w1|w2", nothing: "^$"}
    for each, roots in sent.items():
        if TRANSFORMS[each] is not ANY:
            expected_roots = {
                root for root, line in zip(roots, LINES, strict=True) if re.search(kept.get(each, ""), line)
            }
            assert waiting & set(roots) == expected_roots, each.__name__
    assert stage.outcome().acked == dropped, "the others wait for their receiver"
    edges = [pair for record in stage.received() for pair in pairs_of(record)]
    assert len(set(edges)) == len(edges), "equal rows of one input have different edges"
    stage.ack_received()
    assert stage.outcome().acked == set(stage.roots)


def test_a_repeated_micro_batch_and_a_retried_task(spark: SparkSession, bootstrap_servers: str, tmp_path: Path) -> None:
    """The driver died between the write and Spark's commit; before that a task failed, and Spark tried it again."""
    stage = Stage(bootstrap_servers, manifest_of(topology_name(), ack_partitions=3), tmp_path)
    failed = tmp_path / "failed"

    @F.udf(returnType="string", useArrow=False)
    def fragile(line: str) -> str:
        if line == LINES[-1]:
            try:
                failed.touch(exist_ok=False)
            except FileExistsError:
                return line
            raise ValueError("the first attempt fails")
        return line

    def transform(rows: DataFrame) -> DataFrame:
        return explode(only_long(rows.withColumn("line", fragile("line"))).withColumnRenamed("word", "line"))

    roots = stage.send([(line,) for line in LINES])
    long = {root for root, line in zip(roots, LINES, strict=True) if len(line) > 12}
    stage.drain(spark, transform)
    assert failed.exists()
    assert stage.outcome().acked == set(roots) - long
    assert stage.anchored() == long
    # Its statistics are not waited for any longer than two seconds.
    eventually(lambda: all(at == end for at, end in stage.progress("split").values()), "Kafka's tools to show no lag")

    before = len(stage.received())
    forget_commit(stage.checkpoint)
    more = stage.send([("something much longer",)])
    stage.drain(spark, transform)
    assert len(stage.received()) == 2 * before + 3, "all tuples were written again, and the new ones"
    assert stage.outcome().acked == set(roots) - long, "a repeat completes nothing"
    stage.ack_received()
    assert stage.outcome().acked == {*roots, *more}


def test_rows_that_fail_and_records_that_cannot_be_read(
    spark: SparkSession, bootstrap_servers: str, tmp_path: Path
) -> None:
    """A function that makes one row of each, over enough inputs that a partition has several batches of acks."""
    stage = Stage(bootstrap_servers, manifest_of(topology_name(), ack_partitions=1), tmp_path)
    fine, bad = stage.send([(f"line {number}",) for number in range(MANY)]), stage.send([("bad",), ("",)])
    # Two inputs of several trees, with one tree in both.
    one, two, three = next_id(), next_id(), next_id()
    first, second = dict.fromkeys((one, two), next_id()), dict.fromkeys((two, three), next_id())
    stage.init([{one: first[one], two: first[two] ^ second[two], three: second[three]}])
    stage.send_record(b"\x02a", first)
    stage.send_record(b"\x02b", second)
    stage.send_record(b"\x12untracked", {})
    edges = [{next_id(): next_id()} for _ in range(3)]
    edges += [dict.fromkeys((next_id(), next_id()), next_id()) for _ in range(2)]
    stage.init(edges)
    stage.send_record(b"\x02b", b"x" * 17)
    # Without a count these are the anchors of two tuples.
    stage.send_record(b"\x02b", dict(anchor_headers([edges[4]]))["anchors"])
    stage.send_record(b"\x02c", edges[0], source=None)
    stage.send_record(b"\x02d", edges[1], source="missing/default")
    stage.send_record(None, edges[2])
    stage.send_record(b"\x0ae", edges[3])
    stage.flush()

    def transform(rows: DataFrame) -> DataFrame:
        words = rows.select(F.nullif("line", F.lit("")).alias("word"), "_tracking")
        found = F.regexp_substr("word", F.lit("bad"))
        return mark_failed(words, found.isNotNull(), F.concat(F.lit("no "), found))

    for run_again in (False, True):
        if run_again:
            forget_commit(stage.checkpoint)
        stage.drain(spark, transform)
        assert not stage.outcome().acked
    stage.ack_received()
    outcome = stage.outcome()
    assert outcome.acked == {*fine, one, two, three}
    assert outcome.failed[bad[0]] == "no bad"
    assert outcome.failed[bad[1]] == "field word of stream default is null, which it may not be"
    dead = {root for each in edges for root in each}
    assert outcome.failed.keys() == {*bad, *dead}
    assert all(outcome.failed[root].startswith("split: dead letter, ") for root in dead)
    (untracked, _again) = (record for record in stage.received() if value(record) == b"\x12untracked")
    assert "anchors" not in headers_of(untracked)
    assert_dead_letters(stage)
    figures = last_figures(stage.kafka, stage.manifest, "split")
    shown = (figures["totals"]["executed"], figures["dead_letters"], figures["failed"])
    assert shown == (2 * (MANY + 5), 12, {"failed": 4}), "both drivers have processed it"


def assert_dead_letters(stage: Stage) -> None:
    reasons = {}
    for record in stage.dead_letters():
        headers = headers_of(record)
        reasons[headers["dead-letter.reason"].decode()] = record.value()
        assert headers["dead-letter.topic"] == f"{stage.manifest.topology}.tuples.split".encode()
        assert headers["dead-letter.by"] == b"split/" + headers["dead-letter.partition"]
    assert reasons == {
        "ragged-anchors": b"\x02b",
        "no-source": b"\x02c",
        "unknown-source": b"\x02d",
        "no-payload": None,
        "bad-payload": b"\x0ae",
    }


# Field → its type, and values; each is a stream of its own, and so is `pair`, with several of them.
FIELDS: dict[str, tuple[Any, list[Any]]] = {
    "text": (str, ["Kafka", "né ü 😀", ""]),
    "count": (int, [-42, 0, 2**62]),
    "fine": (bool, [True, False]),
    "raw": (bytes, [b"\x00\xff", b""]),
    "maybe": (["null", "string"], [None, "there"]),
}
PAIRS = [("de", 7, None, 0.25), ("", -1, "x", -1.5)]
RECEIVERS = {"keyed": "fields", "shuffled": "shuffle", "one": "global", "copied": "all"}


def streams_manifest() -> Manifest:
    """items → split, with streams of all types and codecs → a receiver for each grouping."""
    fields = {name: ["null", {str: "string", int: "long", bool: "boolean", bytes: "bytes"}.get(type_, "string")]
              for name, (type_, _) in FIELDS.items() if type_ != ["null", "string"]}  # fmt: skip
    items = declare({"to": str, **fields, "maybe": ["null", "string"], "share": ["null", "double"]}, codec="avro")
    streams = (
        *(
            declare({name: type_}, name=name, codec="bytes" if name == "raw" else "avro")
            for name, (type_, _) in FIELDS.items()
        ),
        declare({"text": str, "count": int, "maybe": ["null", "string"], "share": float}, name="pair", codec="json"),
    )
    keys = {stream.name: [name for name in stream.field_names if name != "share"] for stream in streams}
    return Manifest.of(
        topology=topology_name(),
        ack_partitions=2,
        max_tree_age_ms=1_200_000,
        components=(
            SpoutManifest(name="lines", streams=(items,)),
            BoltManifest(name="split", streams=streams, subscriptions=(subscription("lines"),)),
            *(
                BoltManifest(
                    name=name,
                    tasks=5,
                    subscriptions=tuple(
                        subscription("split", grouping, *(key if grouping == "fields" else []), stream=stream)  # type: ignore[arg-type]
                        for stream, key in keys.items()
                    ),
                )
                for name, grouping in RECEIVERS.items()
            ),
        ),
    )


def test_groupings_codecs_and_streams(spark: SparkSession, bootstrap_servers: str, tmp_path: Path) -> None:
    """Values of all types keep their value, and go to the task that the SDK's fields grouping gives them."""
    manifest = streams_manifest()
    stage = Stage(bootstrap_servers, manifest, tmp_path)
    names = manifest.stream("lines", "default").field_names
    sent: list[tuple[str, dict[str, Any]]] = [
        (name, {name: each}) for name, (_, values) in FIELDS.items() for each in values
    ]
    sent += [("pair", dict(zip(("text", "count", "maybe", "share"), pair, strict=True))) for pair in PAIRS]
    roots = stage.send([[{"to": to, **values}.get(name) for name in names] for to, values in sent])
    stage.drain(spark, lambda rows: rows.withColumnRenamed("to", "_stream"))

    def read(record: Message) -> tuple[str, tuple[Any, ...]]:
        source, _, stream = headers_of(record)["source"].decode().partition("/")
        return stream, decode_tuples(payload_codec(manifest.stream(source, stream)), value(record))[0]

    expected = Counter((to, tuple(values.values())) for to, values in sent)
    for name in RECEIVERS:
        times = 5 if name == "copied" else 1
        assert Counter(map(read, stage.received(name))) == {each: n * times for each, n in expected.items()}
    assert {record.partition() for record in stage.received("one")} == {0}
    assert {record.partition() for record in stage.received("copied")} == set(range(5))
    for record in stage.received("keyed"):
        stream, values = read(record)
        key = grouping_key(values[:3] if stream == "pair" else values)
        assert (record.key(), record.partition()) == (key, fields_task(key, 5)), values
    assert not stage.outcome().acked
    stage.ack_received(*RECEIVERS)
    assert stage.outcome().acked == set(roots)


@pytest.mark.exhaustive
def test_at_most_once_reads_committed_records(spark: SparkSession, bootstrap_servers: str, tmp_path: Path) -> None:
    """Aborted tuples are not processed, markers cause no wait, and without acking tuples have no anchors."""
    stage = Stage(bootstrap_servers, manifest_of(topology_name(), guarantee="at_most_once"), tmp_path)
    # As of a cluster whose other consumers read everything.
    stage.kafka["isolation.level"] = "read_uncommitted"
    topic = tuples_topic(stage.manifest.topology, "split")
    headers = [*anchor_headers([{1: 2}]), ("source", b"lines/default")]
    write_in_transactions(
        stage.kafka, topic, [(b"\x02a", True), (b"\x02b", False), (b"\x02c", True), (b"\x02d", False)], headers
    )
    stage.drain(spark, renamed, max_rows=3)
    assert sorted(stage.values()) == [("a",), ("c",)]
    write_in_transactions(stage.kafka, topic, [(b"\x02e", False), (b"\x02f", True)], headers)
    stage.drain(spark, renamed)
    assert sorted(stage.values()) == [("a",), ("c",), ("f",)]
    assert all(set(headers_of(record)) == {"source"} for record in stage.received())
    assert not stage.dead_letters()
