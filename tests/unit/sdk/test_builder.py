"""What can be wrong with a topology is found when it is built, and the message says what to do."""

from functools import partial
from pathlib import Path

import pytest

from spout_sdk import (
    BasicBolt,
    BasicCollector,
    Bolt,
    OutputCollector,
    Spout,
    Stream,
    TaskContext,
    Topology,
    TopologyBuilder,
    TopologyError,
    Tuple,
    declare,
    load_topology,
)
from spout_sdk.components import AnyBolt


class Lines(Spout):
    streams = (declare({"line": str, "weight": float}), declare(["note"], name="notes"))

    def next_tuple(self) -> None:
        """Has nothing to emit."""


class Split(BasicBolt):
    streams = (declare({"word": str}),)

    def __init__(self, separator: str = " ") -> None:
        self.separator = separator

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        for word in tuple_["line"].split(self.separator):
            collector.emit((word,))


class Sink(Bolt):
    def execute(self, tuple_: Tuple) -> None:
        self.collector.ack(tuple_)

    def prepare(self, context: TaskContext, collector: OutputCollector) -> None:
        self.collector = collector


class Nothing(Bolt):
    streams = (declare({"word": str}),)


class Twice(Spout):
    streams = (declare(["a"]), declare(["b"]))

    def next_tuple(self) -> None:
        """Has nothing to emit."""


def builder() -> TopologyBuilder:
    builder = TopologyBuilder("words")
    builder.set_spout("lines", Lines)
    return builder


def test_a_topology_becomes_a_manifest() -> None:
    made = TopologyBuilder("words", ack_partitions=3, message_timeout=5, tick=0.5, max_spout_pending=7)
    made.set_spout("lines", Lines, tasks=2, message_timeout=2.5)
    made.set_bolt("split", partial(Split, ","), tasks=3).shuffle_grouping("lines").all_grouping("lines", "notes")
    made.set_bolt("count", Sink, tasks=2).fields_grouping("split", "word")
    topology = made.build()
    manifest = topology.manifest

    assert (topology.name, manifest.ack_partitions, manifest.tick_ms, manifest.acking) == ("words", 3, 500, True)
    (lines,) = manifest.spouts
    assert (lines.tasks, lines.timeout_ms, lines.max_pending) == (2, 2500, 7)
    assert [stream.name for stream in lines.streams] == ["default", "notes"]
    assert manifest.max_tree_age_ms == 25_000
    split, count = manifest.bolts
    assert [(s.stream, s.grouping) for s in split.subscriptions] == [("default", "shuffle"), ("notes", "all")]
    assert count.subscriptions[0].fields == ("word",)
    made_bolt = topology.factory("split")()
    assert isinstance(made_bolt, Split)
    assert made_bolt.separator == ","


def test_cycles_are_allowed() -> None:
    made = builder()
    made.set_bolt("split", Split).shuffle_grouping("lines").shuffle_grouping("again")
    made.set_bolt("again", Split).shuffle_grouping("split")
    made.build()


def test_a_function_may_make_the_component() -> None:
    def make() -> AnyBolt:
        return Split(";")

    made = builder()
    made.set_bolt("split", make).shuffle_grouping("lines")
    assert made.build().manifest.stream("split", "default").field_names == ("word",)


def _unknown_source(made: TopologyBuilder) -> None:
    made.set_bolt("split", Split).shuffle_grouping("line")


def _unknown_stream(made: TopologyBuilder) -> None:
    made.set_bolt("split", Split).shuffle_grouping("lines", "other")


def _no_such_field(made: TopologyBuilder) -> None:
    made.set_bolt("split", Split).fields_grouping("lines", ["word"])


def _no_fields(made: TopologyBuilder) -> None:
    made.set_bolt("split", Split).fields_grouping("lines", [])


def _ungroupable(made: TopologyBuilder) -> None:
    made.set_bolt("split", Split).fields_grouping("lines", "weight")


def _duplicate(made: TopologyBuilder) -> None:
    made.set_bolt("lines", Split).shuffle_grouping("lines")


def _no_subscription(made: TopologyBuilder) -> None:
    made.set_bolt("split", Split)


def _twice_subscribed(made: TopologyBuilder) -> None:
    made.set_bolt("split", Split).shuffle_grouping("lines").all_grouping("lines")


def _bad_name(made: TopologyBuilder) -> None:
    made.set_bolt("split.words", Split).shuffle_grouping("lines")


def _reserved_name(made: TopologyBuilder) -> None:
    made.set_bolt("acker", Split).shuffle_grouping("lines")


def _no_tasks(made: TopologyBuilder) -> None:
    made.set_bolt("split", Split, tasks=0).shuffle_grouping("lines")


def _an_instance(made: TopologyBuilder) -> None:
    made.set_bolt("split", Split()).shuffle_grouping("lines")  # type: ignore[arg-type]


def _no_bolt(made: TopologyBuilder) -> None:
    made.set_bolt("split", Lines).shuffle_grouping("lines")


def _nothing_defined(made: TopologyBuilder) -> None:
    made.set_bolt("sink", Nothing).shuffle_grouping("lines")


def _no_spout_class(made: TopologyBuilder) -> None:
    made.set_spout("more", Split)


def _stream_twice(made: TopologyBuilder) -> None:
    made.set_spout("more", Twice)


def _timeout_above_age(made: TopologyBuilder) -> None:
    other = TopologyBuilder("words", max_tree_age=1)
    other.set_spout("lines", Lines)
    other.build()


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (_unknown_source, "has no component 'line': it has lines, split"),
        (_unknown_stream, "has no stream 'other': it declares default, notes"),
        (
            _no_such_field,
            "groups by field 'word', which stream 'default' of 'lines' does not have: it has",
        ),
        (_no_fields, "but names none"),
        (_ungroupable, "by 'weight', a double"),
        (_duplicate, "two components are named 'lines': names must be unique"),
        (_no_subscription, "bolt 'split' receives nothing: call shuffle_grouping"),
        (_twice_subscribed, "subscribes twice to stream 'default' of 'lines': keep one grouping"),
        (_bad_name, "must start with a letter"),
        (_reserved_name, "choose another"),
        (_no_tasks, "tasks of bolt 'split' is 0: it must be at least 1"),
        (_an_instance, "is given a Split: pass its class"),
        (_no_bolt, "makes a Lines, which is no Bolt, BasicBolt or BatchBolt: derive it"),
        (_nothing_defined, "component 'sink' makes a Nothing, which does not define execute: define it"),
        (_no_spout_class, "makes a Split, which is no Spout: derive it"),
        (_stream_twice, "declares stream 'default' twice: give one another name"),
        (_timeout_above_age, "raise max_tree_age"),
    ],
)
def test_what_cannot_be_is_refused(spoil: object, says: str) -> None:
    def attempt() -> None:
        made = builder()
        assert callable(spoil)
        spoil(made)
        made.build()

    with pytest.raises(TopologyError) as refused:
        attempt()
    assert says in str(refused.value)


def test_a_topology_needs_a_spout() -> None:
    made = TopologyBuilder("words")
    with pytest.raises(TopologyError, match=r"has no spout: add one with set_spout"):
        made.build()


@pytest.mark.parametrize("settings", [{"message_timeout": 0}, {"tick": -1}, {"ack_partitions": 0}])
def test_numbers_that_cannot_be_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(TopologyError, match=r"it must be at least"):
        TopologyBuilder("words", **settings)  # type: ignore[arg-type]


def test_a_topology_name_is_checked() -> None:
    with pytest.raises(TopologyError, match=r"topology name 'a b' cannot be used"):
        TopologyBuilder("a b")


topology = builder().build()
not_a_topology = 5


def make_topology() -> Topology:
    return topology


def test_a_topology_is_loaded_by_reference() -> None:
    assert load_topology(f"{__name__}:topology").name == "words"
    assert load_topology(f"{__name__}:make_topology").name == "words"
    with pytest.raises(TopologyError, match="has no component 'other': it has lines"):
        topology.factory("other")


@pytest.mark.parametrize(
    ("reference", "says"),
    [
        ("nothing", "write MODULE:TOPOLOGY"),
        ("no_such_module_here:topology", "cannot import 'no_such_module_here'"),
        (f"{__name__}:absent", "has no 'absent'"),
        (f"{__name__}:not_a_topology", "is a int, not a Topology"),
    ],
)
def test_a_bad_reference_says_why(reference: str, says: str) -> None:
    with pytest.raises(TopologyError) as refused:
        load_topology(reference)
    assert says in str(refused.value)


def test_only_a_module_that_is_not_found_may_have_another_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that raises was found: to doubt its name hides the mistake that the error names."""
    (tmp_path / "a_module_that_raises.py").write_text("raise ValueError('define execute')")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(TopologyError, match=r"ValueError: define execute$"):
        load_topology("a_module_that_raises:topology")
    with pytest.raises(TopologyError, match="is the name right, and is its directory on the Python path"):
        load_topology("no_such_module_here:topology")


def test_streams_are_re_exported() -> None:
    assert isinstance(declare(["a"]), Stream)
