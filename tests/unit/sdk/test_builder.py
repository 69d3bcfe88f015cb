"""`build()` rejects invalid topologies, with the remedy."""

import re
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from spout_sdk import (
    BasicBolt,
    BasicCollector,
    Bolt,
    KafkaSpout,
    RetryPolicy,
    Topology,
    TopologyBuilder,
    Tuple,
    declare,
    load_topology,
)
from spout_sdk.errors import TopologyError
from spout_sdk.runtime import ComponentRunner, TopologyRunner
from tests.components import Sink, kinds, source

LINE = (declare({"line": str}, codec="avro"),)
WORD = (declare({"word": str}, codec="avro"),)


Lines = source(
    declare({"line": str, "weight": float}, codec="avro"),
    declare(["note"], name="notes"),
    declare(["to"], name="to", direct=True),
)


class Split(BasicBolt):
    streams = WORD

    def __init__(self, separator: str = " ") -> None:
        self.separator = separator

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        """Is never run here."""


class Nothing(Bolt):
    """Has no `execute`."""


OF_KIND = kinds(lambda *_: (), *WORD)


def transform(rows: Any) -> Any:
    raise AssertionError("a function of an external component is only called where it runs")


def builder(**settings: Any) -> TopologyBuilder:
    made = TopologyBuilder("words", **settings)
    made.set_spout("lines", Lines)
    return made


def test_a_topology_becomes_a_manifest() -> None:
    made = TopologyBuilder("words", ack_partitions=3, message_timeout=5, tick=0.5, max_spout_pending=7)
    made.set_spout("lines", Lines, tasks=2, message_timeout=2.5)
    made.set_bolt("split", partial(Split, ","), tasks=3).shuffle_grouping("lines").all_grouping("lines", "notes")
    made.set_bolt("count", Sink, tasks=2).fields_grouping("split", "word").shuffle_grouping("again")
    # A cycle, and a function that makes its bolt.
    made.set_bolt("again", lambda: Split(";")).shuffle_grouping("split").shuffle_grouping("again")
    topology = made.build()
    manifest = topology.manifest
    assert (topology.name, manifest.ack_partitions, manifest.tick_ms, manifest.acking) == ("words", 3, 500, True)
    (lines,) = manifest.spouts
    assert (lines.tasks, lines.timeout_ms, lines.max_pending) == (2, 2500, 7)
    assert [stream.name for stream in lines.streams] == ["default", "notes", "to"]
    assert manifest.max_tree_age_ms == 25_000
    split, count, again = manifest.bolts
    assert [(each.stream, each.grouping) for each in split.subscriptions] == [("default", "shuffle"), ("notes", "all")]
    assert (count.subscriptions[0].fields, again.streams[0].field_names) == (("word",), ("word",))
    bolt = topology.factory("split")()
    assert isinstance(bolt, Split)
    assert bolt.separator == ","
    with pytest.raises(TopologyError, match="has no component 'other': it has lines"):
        topology.factory("other")


def test_one_stream_needs_no_list() -> None:
    one: Any = declare({"word": str})

    class Words(Split):
        streams = one

    made = TopologyBuilder("words")
    made.set_spout("read", KafkaSpout("lines", streams=one))
    made.set_spout("spark", "lines", external=True, streams=one)
    made.set_bolt("split", partial(Words, ",")).shuffle_grouping("read")
    made.set_bolt("transform", lambda rows: rows, external=True, streams=one).shuffle_grouping("spark")
    assert {each.streams for each in made.build().manifest.components} == {(one,)}


def split(made: TopologyBuilder, bolt: Any = Split, **options: Any) -> Any:
    return made.set_bolt("split", bolt, **options)


def fed(made: TopologyBuilder, bolt: Any = Split, **options: Any) -> Any:
    return split(made, bolt, **options).shuffle_grouping("lines")


def external(made: TopologyBuilder, given: Any, streams: Any = LINE) -> None:
    made.set_spout("spark", given, external=True, streams=streams)


def after_external(made: TopologyBuilder) -> Any:
    external(made, "a-topic", WORD)
    return split(made).partial_key_grouping("spark", "word")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        # Calls of a builder, and their errors, at once or by `build`.
        (lambda made: split(made).shuffle_grouping("lines", "other"), "has no stream 'other': it declares default"),
        (lambda made: split(made).fields_grouping("lines", ["word"]), "groups by field 'word', which stream"),
        (lambda made: split(made).fields_grouping("lines", "weight"), "by 'weight', whose type is double"),
        (lambda made: split(made).direct_grouping("lines"), "is not direct: use another grouping"),
        (lambda made: split(made).shuffle_grouping("lines", "to"), "which is direct: use a direct grouping"),
        (after_external, "'spark', which is external: only components of the SDK can follow it"),
        (lambda made: made.set_bolt("lines", Split).shuffle_grouping("lines"), "two components are named 'lines'"),
        (split, "bolt 'split' receives nothing: call shuffle_grouping"),
        (lambda made: fed(made).all_grouping("lines"), "keep one grouping"),
        (lambda made: made.set_bolt("split.words", Split).shuffle_grouping("lines"), "must start with a letter"),
        (lambda made: fed(made, tasks=0), "tasks of bolt 'split' is 0"),
        (lambda made: fed(made, Split()), "is given a Split: pass its class"),
        (lambda made: fed(made, Lines), "makes a Source, which is not a Bolt"),
        (lambda made: fed(made, Nothing), "Nothing, which does not define execute"),
        (lambda made: made.set_spout("more", Split), "makes a Split, which is not a Spout or KafkaSpout: derive it"),
        (lambda made: made.set_spout("more", source(*LINE * 2)), "has two streams 'default': give one another name"),
        (lambda _: builder(max_tree_age=1).build(), "raise max_tree_age"),
        (lambda _: TopologyBuilder("words").build(), "has no spout: add one with set_spout"),
        (lambda _: TopologyBuilder("a b"), "topology name 'a b' cannot be used"),
        (lambda _: builder(message_timeout=float("inf")), "finite number of seconds"),
        (lambda _: builder(message_timeout="5"), "'5'"),
        (lambda _: builder(message_timeout=0), "is 0: it must be a finite number of seconds, at least 0.001"),
        (lambda _: builder(tick=True), "finite number"),
        (lambda _: builder(tick=-1), "tick is -1: it must be"),
        (lambda _: builder(ack_partitions=1.5), "whole number"),
        (lambda _: builder(ack_partitions=0), "of at least 1"),
        (lambda _: builder(max_spout_pending="9"), "whole number"),
        (lambda _: RetryPolicy(initial_delay=-1.0), "initial_delay of a RetryPolicy is -1.0: it must be"),
        (lambda _: RetryPolicy(delay_period=float("nan")), "delay_period of a RetryPolicy is nan"),
        (lambda _: RetryPolicy(max_delay=float("inf")), "max_delay of a RetryPolicy is inf"),
        (lambda _: RetryPolicy(max_retries=-1), "max_retries of a RetryPolicy is -1"),
        (lambda _: RetryPolicy(max_retries=2.5), "whole number"),  # type: ignore[arg-type]
        (lambda made: made.set_spout("more", "my-topic"), "add external=True if another program"),
        (lambda made: external(made, "my topic"), "spout 'spark' reads no topic: topic name 'my topic' cannot be used"),
        (lambda made: external(made, "my-topic", None), "its streams are not declared: add streams=[declare(...)]"),
        (lambda made: external(made, transform, ()), "its streams are not declared"),
        (lambda made: external(made, "my-topic", LINE * 2), "declares 2 streams"),
        (lambda made: external(made, Lines), "given the class Source, which only this SDK can run"),
        (lambda made: external(made, 7), "is external and given a int: pass the name of a topic, or a function"),
        (lambda made: split(made, "my-topic", external=True), "bolt 'split' is external and given a str"),
        (lambda made: split(made, Split, external=True), "bolt 'split' is external and given the class Split"),
        (
            lambda made: fed(made, OF_KIND.columns),
            "of codec arrow, and stream 'default' of 'lines' has codec 'avro': l",
        ),
        (
            lambda made: split(made, OF_KIND.columns).shuffle_grouping("lines", "notes"),
            "'split' is an ArrowBolt, which takes and emits streams of codec arrow, and stream 'default' of 'split'",
        ),
        (lambda made: fed(made, OF_KIND.batches, tick_interval=1.0), "is a BatchBolt, which has no tick tuples: leave"),
        (
            lambda made: fed(made, type("Ticks", (OF_KIND.coroutines,), {"tick_interval": 1.0})),
            "is an AsyncBolt, which",
        ),
    ],
)
def test_a_mistake_is_rejected_with_a_remedy(spoil: Callable[[TopologyBuilder], object], message: str) -> None:
    def attempt() -> None:
        made = builder()
        spoil(made)
        made.build()

    with pytest.raises(TopologyError, match=re.escape(message)):
        attempt()


@pytest.mark.parametrize(
    ("field", "is_accepted"),
    [
        *((each, True) for each in (str, int, bool, bytes, ["null", "string"])),
        ({"type": "enum", "name": "e", "symbols": ["A"]}, True),
        *((each, False) for each in (float, ["null", "double"], {"type": "array", "items": "string"})),
        ({"type": "long", "logicalType": "timestamp-millis"}, False),
    ],
)
def test_only_types_with_one_form_in_every_language_are_grouped_by(field: Any, is_accepted: bool) -> None:
    made = TopologyBuilder("words")
    made.set_spout("lines", source(declare({"field": field})))
    made.set_bolt("sink", Sink).fields_grouping("lines", "field")
    with nullcontext() if is_accepted else pytest.raises(TopologyError, match="groups 'lines' by 'field'"):
        made.build()


@pytest.mark.parametrize(("timeout", "tick_ms"), [(10.5, 955), (30, 1_000), (0.4, 400)])
def test_the_default_tick_is_a_part_of_the_smallest_timeout(timeout: float, tick_ms: int) -> None:
    made = builder(message_timeout=timeout)
    made.set_spout("slow", Lines, message_timeout=100)
    fed(made).shuffle_grouping("slow")
    assert made.build().manifest.tick_ms == tick_ms


@pytest.mark.parametrize("given", ["my-topic", transform])
def test_an_external_spout_is_a_topic_or_a_function_and_is_not_run_here(given: Any) -> None:
    made = builder()
    made.set_spout("spark", given, external=True, streams=LINE, max_spout_pending=7, message_timeout=3)
    made.set_bolt("split", transform, external=True, streams=WORD).shuffle_grouping("spark")
    made.set_bolt("sink", transform, external=True).shuffle_grouping("split")
    topology = made.build()
    _, spark = topology.manifest.spouts
    assert (spark.external, spark.max_pending, spark.timeout_ms, spark.streams) == (True, 7, 3_000, LINE)
    assert dict(topology.factories) == {"lines": Lines, "spark": given, "split": transform, "sink": transform}
    with pytest.raises(TopologyError, match=r"'spark' is external, .* run it in Spark with acker spark submit"):
        ComponentRunner(topology, "spark", {"bootstrap.servers": "unused:1"})


def test_exactly_once_needs_a_timeout_that_outlasts_a_process_that_dies() -> None:
    builder(guarantee="exactly_once", message_timeout=25).build()
    builder(message_timeout=2).build()
    short = builder(guarantee="exactly_once")
    short.set_spout("more", Lines, message_timeout=24)
    with pytest.raises(TopologyError, match=r"spout 'more' is 24 s: with exactly_once it must be at least 25 s. When"):
        short.build()


def test_with_exactly_once_an_external_bolt_is_the_last_one() -> None:
    made = builder(guarantee="exactly_once")
    made.set_bolt("split", transform, external=True, streams=WORD).shuffle_grouping("lines")
    made.build()
    made.set_bolt("count", Sink).shuffle_grouping("split")
    with pytest.raises(TopologyError, match=r"bolt 'split' .* cannot emit to count. Make it the last bolt"):
        made.build()


def mixed() -> Topology:
    made = builder()
    made.set_bolt("upper", transform, external=True).shuffle_grouping("lines")
    return made.build()


topology = mixed()
building = builder()
not_a_topology = 5


def test_a_topology_is_loaded_by_reference_and_external_components_are_skipped() -> None:
    assert load_topology(f"{__name__}:topology").name == "words"
    assert load_topology(f"{__name__}:building").name == "words"
    assert load_topology(f"{__name__}:builder").name == "words"
    runner = TopologyRunner(f"{__name__}:mixed", {"bootstrap.servers": "unused:1"})
    assert (runner.pids(), list(runner.stats())) == ({"lines": []}, ["lines"])


MISTAKES = """
import json

def hook(pairs):
    return {}["no"]

topology = json.loads('{"a": 1}', object_pairs_hook=hook)
"""


def mistaken() -> Topology:
    made = builder()
    made.set_bolt("split", Split).shuffle_grouping("lines").shuffle_grouping("lines")
    return made.build()


def test_a_bad_reference_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a_module_that_raises.py").write_text("raise ValueError('define execute')")
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "a_module_with_a_mistake.py").write_text(MISTAKES)
    for reference, message in [
        # The user's line, not that of the SDK, of a library or of the import system.
        ("a_module_with_a_mistake:topology", r"KeyError: 'no' \(.*a_module_with_a_mistake.py, line 5\)$"),
        (f"{__name__}:mistaken", rf"raised TopologyError: .* twice .*\({re.escape(__file__)}, line \d+\)$"),
        ("nothing", "write MODULE:TOPOLOGY"),
        ("no_such_module_here:topology", "cannot import 'no_such_module_here'.*is its directory on the Python path"),
        # It was found, so its name is right.
        ("a_module_that_raises:topology", r"ValueError: define execute \(.*a_module_that_raises.py, line 1\)$"),
        (f"{__name__}:absent", "has no 'absent': .*; topologies there: .*topology"),
        ("json.py:topology", "write json, without .py$"),
        (f"{__name__}:not_a_topology", "is a int, not a Topology"),
    ]:
        with pytest.raises(TopologyError, match=message):
            load_topology(reference)
