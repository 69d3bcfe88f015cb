"""Components that something else runs: what they are declared with, and what is refused."""

from typing import Any

import pytest

from spout_sdk import BasicBolt, BasicCollector, ComponentRunner, Spout, TopologyBuilder, TopologyError, Tuple, declare

LINE = (declare({"line": str}),)


class Lines(Spout):
    streams = LINE

    def next_tuple(self) -> None:
        """Has nothing to emit."""


class Split(BasicBolt):
    streams = (declare({"word": str}),)

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        """Is never run here."""


def source(spark: Any) -> str:
    raise AssertionError("a source is only called where it runs")


def transform(rows: Any) -> Any:
    raise AssertionError("a transform is only called where it runs")


@pytest.mark.parametrize("given", ["my-topic", source])
def test_a_spout_is_a_topic_or_a_function(given: Any) -> None:
    builder = TopologyBuilder("words")
    builder.set_spout("lines", given, external=True, streams=LINE, max_spout_pending=7, message_timeout=3)
    builder.set_bolt("split", transform, external=True, streams=[declare({"word": str})]).shuffle_grouping("lines")
    builder.set_bolt("sink", transform, external=True).shuffle_grouping("split")
    topology = builder.build()
    (lines,) = topology.manifest.spouts
    assert (lines.external, lines.max_pending, lines.timeout_ms, lines.streams) == (True, 7, 3_000, LINE)
    assert dict(topology.factories) == {"lines": given, "split": transform, "sink": transform}


def test_what_is_external_is_not_run_here() -> None:
    builder = TopologyBuilder("words")
    builder.set_spout("lines", "my-topic", external=True, streams=LINE)
    with pytest.raises(TopologyError, match=r"'lines' is external, .* run it in Spark with acker spark submit"):
        ComponentRunner(builder.build(), "lines", {"bootstrap.servers": "unused:1"})


@pytest.mark.parametrize(
    ("given", "streams", "says"),
    [
        ("my topic", LINE, "spout 'lines' reads no topic: topic name 'my topic' cannot be used: Kafka takes letters"),
        ("", LINE, "topic name '' cannot be used"),
        ("my-topic", None, "nothing says what it emits: add streams=[declare(...)] to set_spout"),
        (source, (), "nothing says what it emits"),
        ("my-topic", (*LINE, declare(["note"], name="notes")), "declares 2 streams: a topic becomes one stream"),
        ("my-topic", (LINE[0], LINE[0]), "declares stream 'default' twice"),
        (Lines, LINE, "given the class Lines, which nothing but this SDK runs: take external=True away, or pass"),
        (7, LINE, "is external and given a int: pass the name of a topic, or a function, source(spark) in Spark"),
    ],
)
def test_spouts_that_cannot_be(given: Any, streams: Any, says: str) -> None:
    with pytest.raises(TopologyError) as refused:
        TopologyBuilder("words").set_spout("lines", given, external=True, streams=streams)
    assert says in str(refused.value)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("my-topic", "bolt 'split' is external and given a str: pass a function, transform(rows) in Spark"),
        (Split, "bolt 'split' is external and given the class Split"),
    ],
)
def test_bolts_that_cannot_be(given: Any, says: str) -> None:
    with pytest.raises(TopologyError) as refused:
        TopologyBuilder("words").set_bolt("split", given, external=True)
    assert says in str(refused.value)


def test_a_topic_is_for_what_is_external() -> None:
    with pytest.raises(TopologyError, match=r"is given a str: pass its class, .* add external=True if something else"):
        TopologyBuilder("words").set_spout("lines", "my-topic")
