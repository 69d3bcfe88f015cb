"""The testing kit itself: what a simulated cluster does, shows and refuses."""

import subprocess
import sys
from collections import Counter
from functools import partial
from typing import Any

import pytest

from spout_sdk import (
    BasicBolt,
    BasicCollector,
    Bolt,
    FailReason,
    Failure,
    OutputCollector,
    TaskContext,
    Topology,
    TopologyBuilder,
    Tuple,
    declare,
)
from spout_sdk import testing as kit
from spout_sdk.testing import FixedTuple, NotIdleError, SimulatedCluster, SimulationError, complete_topology
from tests.unit.sdk.kit_words import Count, Lines, Split, fed, words


def test_the_exported_names() -> None:
    assert sorted(kit.__all__) == [
        "DeadLetter",
        "Emitted",
        "FixedTuple",
        "MemoryBroker",
        "MemoryRecord",
        "NotIdleError",
        "Outcome",
        "SimulatedCluster",
        "SimulationError",
        "complete_topology",
    ]
    assert all(getattr(kit, name).__doc__ for name in kit.__all__)


def test_the_sdk_does_not_import_the_kit() -> None:
    code = (
        "import sys, spout_sdk; sys.exit(any(m in sys.modules for m in ('spout_sdk.testing', 'acker_worker', 'numba')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


class TestReading:
    def test_a_real_spout_runs(self) -> None:
        with SimulatedCluster(words()) as cluster:
            cluster.run_until_idle()
            assert sorted(cluster.acked("lines")) == [0, 1, 2]
            assert cluster.emitted("lines") == [("line 2",), ("line 1",), ("line 0",)]
            assert cluster.spout("lines").left == 0

    def test_what_was_emitted(self) -> None:
        with fed("a b", "c") as cluster:
            cluster.run_until_idle()
            first, second = cluster.emissions("lines")
            assert (first.values, first.stream, first.task, first.message_id) == (("a b",), "default", 0, 0)
            assert [bolt for bolt, _ in (*first.recipients, *second.recipients)] == ["split", "split"]
            assert len({*first.roots, *second.roots}) == 2
            a = next(one for one in cluster.emissions("split") if one.values == ("a",))
            assert a.roots == first.roots
            assert [anchor["line"] for anchor in a.anchors] == ["a b"]
            assert a.recipients[0][0] == "count"
            assert sorted(cluster.emitted("split", "default")) == [("a",), ("b",), ("c",)]
            assert cluster.emitted("split", "other") == []

    def test_what_was_executed_acked_and_failed(self) -> None:
        with fed("a b", "") as cluster:
            cluster.run_until_idle()
            assert sorted(cluster.executed("split")) == [("",), ("a b",)]
            assert cluster.acked("split") == [("a b",)]
            assert cluster.failed("split") == [(("",), Failure(FailReason.FAILED, "nothing to split"))]
            assert cluster.acked("lines") == [0]
            assert cluster.failed("lines") == [(1, Failure(FailReason.FAILED, "nothing to split"))]
            assert sorted(cluster.executed("count", 0) + cluster.executed("count", 1)) == [("a",), ("b",)]
            assert all(outcome.at == 0 for outcome in cluster.outcomes("lines"))

    def test_stats_and_instances(self) -> None:
        with fed("a b a") as cluster:
            cluster.run_until_idle()
            stats = cluster.stats("count")
            assert (stats.tasks, stats.executed, stats.acked, stats.counters) == ((0, 1), 3, 3, {"words": 3})
            assert cluster.bolt("count", 0).counts + cluster.bolt("count", 1).counts == Counter("aab")

    def test_pending_in_the_order_of_emits(self) -> None:
        with fed(*"abcdef", paused=["split"]) as cluster:
            cluster.run_until_idle()
            assert cluster.pending("lines") == [0, 1, 2, 3, 4, 5]
            cluster.resume("split")
            cluster.run_until_idle()
            assert cluster.pending("lines") == []

    def test_dead_letters(self) -> None:
        with fed() as cluster:
            inbox = "words.tuples.split"
            cluster.broker.append(inbox, 0, b"k", b"\xff", [("source", b"lines/default"), ("mine", b"x")])
            cluster.run_until_idle()
            (letter,) = cluster.dead_letters()
            assert (letter.topic, letter.partition, letter.offset, letter.reason) == (inbox, 0, 0, "bad-payload")
            assert (letter.by, letter.key, letter.value) == ("split/0", b"k", b"\xff")
            assert letter.headers == {"source": b"lines/default", "mine": b"x"}
            assert cluster.executed("split") == []

    def test_the_ackers_dead_letters(self) -> None:
        with fed() as cluster:
            cluster.broker.append("words.acks", 3, None, b"junk", None)
            cluster.run_until_idle()
            (letter,) = cluster.dead_letters()
            assert (letter.by, letter.topic, letter.partition, letter.value) == ("acker", "words.acks", 3, b"junk")


class TestSources:
    def test_streams_message_ids_and_untracked_messages(self) -> None:
        messages: list[Any] = [FixedTuple(("a",), "urgent", "mine"), ("b",), FixedTuple(("c",), message_id=None)]
        done = complete_topology(words(), sources={"lines": messages})
        assert sorted(map(str, done.acked("lines"))) == ["1", "mine"]
        assert done.emitted("lines", "urgent") == [("a",)]
        assert sorted(done.executed("count")) == [("a",), ("b",), ("c",)]

    def test_feeding(self) -> None:
        with fed() as cluster:
            assert cluster.feed("lines", ("a",)) == 0
            assert cluster.feed("lines", ("b",), message_id="mine", stream="urgent") == "mine"
            cluster.run_until_idle()
            assert sorted(map(str, cluster.acked("lines"))) == ["0", "mine"]

    def test_what_fails_is_not_emitted_again(self) -> None:
        done = complete_topology(words(), sources={"lines": [("",)]})
        assert len(done.emitted("lines")) == len(done.failed("lines")) == 1

    def test_only_mocked_spouts_are_fed(self) -> None:
        with SimulatedCluster(words()) as cluster, pytest.raises(SimulationError, match=r"sources={'lines': \[\]}"):
            cluster.feed("lines", ("a",))

    @pytest.mark.parametrize("argument", ["sources", "bolts"])
    def test_stand_ins_for_nothing(self, argument: str) -> None:
        with pytest.raises(SimulationError, match=r"no (spout|bolt) 'nobody' to replace: it has"):
            SimulatedCluster(words(), **{argument: {"nobody": []}})  # type: ignore[arg-type]

    def test_a_bolt_is_replaced(self) -> None:
        class Whole(BasicBolt):
            streams = Split.streams

            def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
                collector.emit((tuple_["line"],))

        done = complete_topology(words(), sources={"lines": [("a b",)]}, bolts={"split": Whole})
        assert done.executed("count") == [("a b",)]


class TestExternal:
    def topology(self) -> Topology:
        builder = TopologyBuilder("mixed")
        builder.set_spout("lines", "a-topic", external=True, streams=[declare({"line": str})])
        streams = [declare({"word": str})]
        builder.set_bolt("split", lambda rows: rows, external=True, streams=streams).shuffle_grouping("lines")
        builder.set_bolt("count", Count).fields_grouping("split", "word")
        return builder.build()

    def test_it_needs_a_stand_in(self) -> None:
        with pytest.raises(SimulationError, match=r"'lines' is external.*sources={'lines': ...}"):
            SimulatedCluster(self.topology())
        with pytest.raises(SimulationError, match=r"'split' is external.*bolts={'split': ...}"):
            SimulatedCluster(self.topology(), sources={"lines": []})

    def test_with_stand_ins_it_runs(self) -> None:
        done = complete_topology(self.topology(), sources={"lines": [("a b",)]}, bolts={"split": Split})
        assert sorted(done.executed("count")) == [("a",), ("b",)]
        assert done.acked("lines") == [0]


class TestTime:
    def test_time_only_passes_when_told_to(self) -> None:
        with fed("a") as cluster:
            cluster.run_until_idle()
            assert cluster.now == 0
            cluster.advance(0.25)
            assert cluster.now == 0.25

    def test_a_timeout(self) -> None:
        with SimulatedCluster(words(message_timeout=5), sources={"lines": [("a",)]}, paused=["count"]) as cluster:
            cluster.advance(4.9)
            assert cluster.pending("lines") == [0]
            cluster.advance(1.1)
            assert cluster.failed("lines") == [(0, Failure(FailReason.TIMEOUT))]
            assert 5 <= cluster.outcomes("lines")[0].at <= 6

    def test_too_old(self) -> None:
        class Slow(Bolt):
            streams = Split.streams

            def prepare(self, context: TaskContext, collector: OutputCollector) -> None:
                self.collector = collector
                self.held: list[Tuple] = []

            def execute(self, tuple_: Tuple) -> None:
                self.held.append(tuple_)
                self.collector.reset_timeout(self.held[0])

        topology = words(split=Slow, message_timeout=5, max_tree_age=20)
        with SimulatedCluster(topology, sources={"lines": []}) as cluster:
            cluster.feed("lines", ("a",))
            for _ in range(12):
                cluster.advance(2)
                cluster.feed("lines", ("b",), message_id=None)
            assert cluster.failed("lines") == [(0, Failure(FailReason.TOO_OLD))]
            assert 20 <= cluster.outcomes("lines")[0].at <= 22

    def test_without_ackers_the_spout_gives_up_by_itself(self) -> None:
        topology = words(message_timeout=5, max_tree_age=20)
        with SimulatedCluster(topology, sources={"lines": [("a",)]}, paused=["acker"]) as cluster:
            cluster.advance(60)
            assert cluster.failed("lines") == [(0, Failure(FailReason.LOST))]

    def test_complete_topology_waits_for_timeouts(self) -> None:
        class Forget(Bolt):
            streams = Split.streams

            def execute(self, tuple_: Tuple) -> None:
                pass

        done = complete_topology(words(split=Forget), sources={"lines": [("a",)]})
        assert done.failed("lines") == [(0, Failure(FailReason.TIMEOUT))]

    def test_numbers_that_cannot_be(self) -> None:
        with pytest.raises(SimulationError, match="step is 0: it must be"):
            SimulatedCluster(words(), step=0)
        with fed() as cluster, pytest.raises(SimulationError, match="seconds is -1"):
            cluster.advance(-1)


class TestRepeating:
    def story(self, seed: int) -> Any:
        with fed(*(f"{number} a b c" for number in range(50)), seed=seed) as cluster:
            cluster.run_until(lambda: len(cluster.executed("count")) > 30)
            cluster.kill("split")
            cluster.kill_acker()
            cluster.advance(2)
            return (
                cluster.executed("count"),
                cluster.outcomes("lines"),
                [(one.values, one.roots, one.recipients) for one in cluster.emissions("split")],
                [record.value() for record in cluster.broker.records("words.acks")],
            )

    def test_the_same_seed_gives_the_same_run(self) -> None:
        assert self.story(7) == self.story(7)

    def test_another_seed_gives_another(self) -> None:
        assert self.story(7)[0] != self.story(8)[0]


def test_a_closed_cluster_can_only_be_read() -> None:
    with fed("a") as cluster:
        cluster.run_until_idle()
    cluster.close()
    assert cluster.acked("lines") == [0]
    for work in (cluster.run_until_idle, partial(cluster.advance, 1), partial(cluster.kill, "split")):
        with pytest.raises(SimulationError, match="the cluster is closed"):
            work()


class TestNoEnd:
    class Endless(Lines):
        def next_tuple(self) -> None:
            self.collector.emit(("again",), message_id=1)

    def test_a_spout_that_never_runs_dry(self) -> None:
        with SimulatedCluster(words(spout=self.Endless)) as cluster:
            with pytest.raises(NotIdleError, match=r"after \d+ records .* for .*lines.*mock it with sources"):
                cluster.run_until_idle(limit=1000)
            cluster.run_until(lambda: len(cluster.acked("lines")) > 300)
            assert cluster.stats("count").executed >= 300

    def test_a_condition_that_never_holds(self) -> None:
        with fed("a") as cluster, pytest.raises(NotIdleError, match="nothing is left to do, and the condition"):
            cluster.run_until(lambda: False)


def test_instances_of_frozen_classes_can_be_watched() -> None:
    from dataclasses import dataclass

    @dataclass(frozen=True)
    class Frozen(BasicBolt):
        times: int

        def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
            for _ in range(self.times):
                collector.emit((tuple_["line"],))

    Frozen.streams = Split.streams
    done = complete_topology(words(split=partial(Frozen, 2)), sources={"lines": [("a",)]})
    assert done.emitted("split") == [("a",), ("a",)]
