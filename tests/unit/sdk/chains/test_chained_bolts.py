"""Chained bolts: which bolts can be chained, and their statistics and results."""

from collections.abc import Callable
from typing import Any

import pytest

from spout_sdk import KafkaBolt, KafkaSpout, TaskContext, TopologyBuilder, Tuple, declare
from spout_sdk.arrow import ArrowBolt, ArrowCollector
from spout_sdk.errors import TopologyError
from spout_sdk.groupings import BoltDeclarer
from spout_sdk.state import StateCollector, StatefulBolt
from spout_sdk.testing import SimulatedCluster
from tests.components import InBatches, Split, kinds, source
from tests.seeds import each_seed

WORD = declare({"word": str})
Lines = source(declare({"line": str}))
Upper = kinds(lambda values, _: [((values[0].upper(),), "default")], WORD).by_hand


class Count(StatefulBolt):
    state = int

    def update(self, count: int, tuple_: Tuple) -> int:
        return count + 1

    def emit(self, key: str, count: int, tuple_: Tuple, collector: StateCollector) -> None:
        """Emits nothing."""


Chained = Callable[[TopologyBuilder], Any]
REJECTED: list[tuple[str, Chained]] = [
    (
        "it has a state, and all tuples of a key must reach the same task: use fields_grouping",
        lambda builder: builder.set_bolt("x", Count),
    ),
    ("one of them is external", lambda builder: builder.set_bolt("x", lambda rows: rows, external=True)),
    (
        "it has several subscriptions, and a chained bolt has one",
        lambda builder: builder.set_bolt("x", Split).shuffle_grouping("lines"),
    ),
    ("it runs in the 2 tasks of 'split', so leave tasks out", lambda builder: builder.set_bolt("x", Split, tasks=3)),
    (
        "chained in a circle",
        lambda builder: (
            builder.set_bolt("one", Split).local_grouping("x"),
            builder.set_bolt("x", Split).local_grouping("one"),
        ),
    ),
]


@pytest.mark.parametrize(("why", "chained"), REJECTED, ids=[why for why, _ in REJECTED])
def test_what_cannot_be_chained_is_rejected_with_the_reason(why: str, chained: Chained) -> None:
    builder = TopologyBuilder("words")
    builder.set_spout("lines", Lines)
    builder.set_bolt("split", Split, tasks=2).shuffle_grouping("lines")
    declared = chained(builder)
    if isinstance(declared, BoltDeclarer):
        declared.local_grouping("split")
    with pytest.raises(TopologyError, match=why):
        builder.build()


def test_local_or_shuffle_chains_what_it_can() -> None:
    builder = TopologyBuilder("words")
    builder.set_spout("lines", Lines, tasks=2)
    builder.set_bolt("chained", Split, tasks=2).local_or_shuffle_grouping("lines")
    builder.set_bolt("more-tasks", Split, tasks=3).local_or_shuffle_grouping("lines")
    builder.set_bolt("two-sources", Split, tasks=2).local_or_shuffle_grouping("lines").shuffle_grouping("chained")
    builder.set_bolt("behind", Split, tasks=2).local_or_shuffle_grouping("chained")
    builder.set_bolt("local", Split).local_grouping("behind")
    manifest = builder.build().manifest
    assert [bolt.name for bolt in manifest.chained_to("lines")] == ["chained", "behind", "local"]
    assert [bolt.name for bolt in manifest.inboxes] == ["more-tasks", "two-sources"]
    assert {bolt.name: bolt.tasks for bolt in manifest.bolts}["local"] == 2
    assert manifest.head("local").name == "lines"


class Columns(ArrowBolt):
    """Emits each batch unchanged; `seen` has the batches."""

    streams = (WORD,)
    seen: list[Any]

    def prepare(self, context: TaskContext) -> None:
        self.seen = []

    def execute_batch(self, batch: Any, collector: ArrowCollector) -> None:
        self.seen.append(batch)
        collector.emit(batch)
        collector.ack()


class Together(InBatches):
    streams = (WORD,)

    def execute_batch(self, tuples: Any) -> None:
        self.collector.emit((" ".join(tuple_["word"] for tuple_ in tuples),), anchors=tuples)
        self.collector.ack_all(tuples)


def test_all_kinds_of_bolts_are_chained_and_seen_by_hooks_and_statistics() -> None:
    builder = TopologyBuilder("words")
    builder.set_spout("lines", Lines)
    kinds = (("split", Split), ("upper", Upper), ("columns", Columns), ("again", Columns), ("together", Together))
    source = "lines"
    for name, kind in kinds:
        builder.set_bolt(name, kind).local_grouping(source)
        source = name
    builder.set_bolt("publish", lambda: KafkaBolt("words", codec="bytes", value=["word"])).local_grouping(source)
    with SimulatedCluster(builder.build(), sources={"lines": [("a b c",)]}) as cluster:
        cluster.run_until_idle()
        assert cluster.acked("lines") == [0]
        assert cluster.executed("columns") == [("A",), ("B",), ("C",)]
        assert sum(batch.num_rows for batch in cluster.bolt("columns").seen) == 3
        assert cluster.emitted("upper") == [("A",), ("B",), ("C",)]
        assert " ".join(record.value().decode() for record in cluster.records("words")) == "A B C"  # type: ignore[union-attr]
        assert sorted(word for (words,) in cluster.acked("publish") for word in words.split()) == ["A", "B", "C"]
        stats = {name: cluster.stats(name) for name, _ in kinds}
        assert {name: (each.executed, each.acked) for name, each in stats.items()} == {
            "split": (1, 1),
            **dict.fromkeys(("upper", "columns", "again", "together"), (3, 3)),
        }


def test_a_state_behind_a_chain_counts_each_message_once() -> None:
    def run(seed: int) -> None:
        builder = TopologyBuilder("words", message_timeout=3)
        builder.set_spout("lines", KafkaSpout("source"))
        builder.set_bolt("split", Split).local_grouping("lines")
        builder.set_bolt("upper", Upper).local_grouping("split")
        builder.set_bolt("count", Count).fields_grouping("upper", "word")
        with SimulatedCluster(builder.build(), seed=seed, step=1.0) as cluster:
            for number in range(30):
                cluster.produce("source", f"a b{number % 3} a")
                if number % 7 == seed % 7:
                    cluster.advance(0.3)
                    cluster.kill(("lines", "split", "count")[number % 3])
                if number == 20:
                    cluster.pause("count")
                    cluster.advance(10)  # trees time out, and are replayed
                    cluster.resume("count")
            cluster.advance(60)
            assert cluster.state("count") == {"A": 60, "B0": 10, "B1": 10, "B2": 10}

    each_seed(run)
