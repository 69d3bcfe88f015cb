"""A Spark bolt on a real broker: with any `transform`, every tree completes or fails, and none completes early."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import reduce
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
from tests.manifests import bolt, manifest
from tests.packs import anchor_headers
from tests.spark.rig import Stage, forget_commit, last_figures, next_id, pairs_of, topology_name
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


def from_rdd(rows: DataFrame) -> DataFrame:
    words = explode(rows)
    return rows.sparkSession.createDataFrame(words.rdd, words.schema)


def limited(rows: DataFrame) -> DataFrame:
    return explode(rows).limit(9)


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


Transform = Callable[[DataFrame], DataFrame]
ANY = Counter[str]()
"""Which rows it makes is for Spark to choose."""

TRANSFORMS: dict[Transform, Counter[str]] = {
    cached: WORDS,
    from_rdd: WORDS,
    limited: ANY,
    arrow_function: Counter(LINES * 2),
    only_long: Counter(line for line in LINES if len(line) > 12),
    counted: Counter(f"{word}={count}" for word, count in WORDS.items()),
    joined: Counter({"one": WORDS["w1"], "uno": WORDS["w1"], "two": WORDS["w2"]}),
    united: Counter(LINES * 2),
    pandas_udf: Counter(line[::-1] for line in LINES),
}


@pytest.mark.parametrize(
    "kinds", [(cached, counted, arrow_function), pytest.param([*TRANSFORMS], marks=pytest.mark.exhaustive)], ids=len
)
def test_transforms_of_all_kinds(
    spark: SparkSession, bootstrap_servers: str, tmp_path: Path, kinds: Sequence[Transform]
) -> None:
    """One micro-batch, whose rows go through one transform each."""
    lines, words = (declare({"kind": str, field: str}) for field in ("line", "word"))
    of_kinds = manifest_of(topology_name(), lines=lines, words=words, ack_partitions=3)
    stage = Stage(bootstrap_servers, of_kinds, tmp_path)

    def transform(rows: DataFrame) -> DataFrame:
        made: Any = (
            each(rows.where(F.col("kind") == each.__name__)).withColumn("kind", F.lit(each.__name__)) for each in kinds
        )
        united: DataFrame = reduce(DataFrame.unionByName, made)
        return united

    sent = {each: stage.send([(each.__name__, line) for line in LINES]) for each in kinds}
    stage.drain(spark, transform)
    found = Counter(stage.values())
    for each in kinds:
        expected = TRANSFORMS[each]
        words_of = Counter({word: n for (kind, word), n in found.items() if kind == each.__name__})
        assert words_of == expected or expected is ANY, each.__name__
    waiting = stage.anchored()
    dropped = {root for roots in sent.values() for root in roots} - waiting
    kept: dict[Transform, str] = {only_long: ".{13}", joined: "w1|w2"}
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
    dead = {next_id(): next_id()}
    stage.init([{one: first[one], two: first[two] ^ second[two], three: second[three]}, dead])
    for payload, edges in ((b"\x02a", first), (b"\x02b", second), (b"\x12untracked", {}), (b"\x0ae", dead)):
        stage.send_record(payload, edges)
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
    assert outcome.failed.keys() == {*bad, *dead}
    reasons = ["no bad", "field word of stream default is null, which it may not be"]
    assert [outcome.failed[root] for root in bad] == reasons
    assert outcome.failed[min(dead)].startswith("split: dead letter, ")
    (untracked, _again) = (record for record in stage.received() if value(record) == b"\x12untracked")
    assert "anchors" not in headers_of(untracked)
    letter, _again = stage.dead_letters()
    headers = headers_of(letter)
    assert (letter.value(), headers["dead-letter.reason"]) == (b"\x0ae", b"bad-payload")
    assert headers["dead-letter.topic"] == tuples_topic(stage.manifest.topology, "split").encode()
    assert headers["dead-letter.by"] == b"split/" + headers["dead-letter.partition"]
    figures = last_figures(stage.kafka, stage.manifest, "split")
    shown = (figures["totals"]["executed"], figures["dead_letters"], figures["failed"])
    assert shown == (2 * (MANY + 5), 2, {"failed": 4}), "both drivers have processed it"


TYPES: dict[str, Any] = {
    "text": str, "count": int, "fine": bool, "raw": bytes, "maybe": ["null", "string"], "share": float,
}  # fmt: skip
ROWS = [
    ("Kafka", 7, True, b"\x00\xff", None, 0.25),
    ("né ü 😀", -(2**62), False, b"", "there", -1.5),
    ("", 0, True, b"x", "x", 1e300),
]
STREAMS: dict[str, tuple[str, list[str]]] = {
    "every": ("avro", [*TYPES]), "raw": ("bytes", ["raw"]), "pair": ("json", ["text", "count", "maybe", "share"]),
}  # fmt: skip
KEYS = {"every": ["text", "count", "maybe"], "raw": ["raw"], "pair": ["text", "count", "maybe"]}


def streams_manifest() -> Manifest:
    """items → split, with streams of all types and codecs → a bolt that groups by fields, and one that gets copies."""
    streams = [declare({name: TYPES[name] for name in names}, to, codec) for to, (codec, names) in STREAMS.items()]
    keyed = [subscription("split", "fields", *keys, stream=stream) for stream, keys in KEYS.items()]
    copied = [subscription("split", "all", stream=stream) for stream in KEYS]
    settings: Any = {"topology": topology_name(), "ack_partitions": 2, "max_tree_age_ms": 1_200_000}
    return manifest(
        SpoutManifest(name="lines", streams=(declare({"to": str, **TYPES}, codec="avro"),)),
        bolt("split", "lines", streams=tuple(streams)),
        BoltManifest(name="keyed", tasks=5, subscriptions=tuple(keyed)),
        BoltManifest(name="copied", tasks=5, subscriptions=tuple(copied)),
        **settings,
    )


def test_groupings_codecs_and_streams(spark: SparkSession, bootstrap_servers: str, tmp_path: Path) -> None:
    """Values of all types keep their value, and go to the task that the SDK's fields grouping gives them."""
    stage = Stage(bootstrap_servers, streams_manifest(), tmp_path)
    roots = stage.send([(to, *row) for to in STREAMS for row in ROWS])
    stage.drain(spark, lambda rows: rows.withColumnRenamed("to", "_stream"))

    def read(record: Message) -> tuple[str, tuple[Any, ...]]:
        _, _, stream = headers_of(record)["source"].decode().partition("/")
        return stream, decode_tuples(payload_codec(stage.manifest.stream("split", stream)), value(record))[0]

    rows = [dict(zip(TYPES, row, strict=True)) for row in ROWS]
    expected = [(to, tuple(row[name] for name in names)) for to, (_, names) in STREAMS.items() for row in rows]
    assert Counter(map(read, stage.received("keyed"))) == Counter(expected)
    assert Counter(map(read, stage.received("copied"))) == Counter(expected * 5)
    assert {record.partition() for record in stage.received("copied")} == set(range(5))
    for record in stage.received("keyed"):
        stream, values = read(record)
        found = dict(zip(STREAMS[stream][1], values, strict=True))
        key = grouping_key([found[name] for name in KEYS[stream]])
        assert (record.key(), record.partition()) == (key, fields_task(key, 5)), values
    assert not stage.outcome().acked
    stage.ack_received("keyed", "copied")
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
