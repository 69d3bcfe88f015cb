"""The testing kit itself: the behaviour, results and errors of a simulated cluster."""

import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from spout_sdk import FailReason, Failure, Topology, TopologyBuilder, Tuple, declare
from spout_sdk.errors import TopologyError
from spout_sdk.testing import FixedTuple, NotIdleError, SimulatedCluster, SimulationError, complete_topology
from tests.unit.sdk.kit_words import Count, Hold, Lines, Split, fed, words


def test_the_sdk_does_not_import_the_kit() -> None:
    kit = ("spout_sdk.testing", "acker_worker", "numba")
    code = f"import sys, spout_sdk; sys.exit(any(module in sys.modules for module in {kit}))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_executed_acked_and_failed_are_shown() -> None:
    with fed("a b", "", "a", paused=["split"]) as cluster:
        cluster.run_until_idle()
        assert cluster.pending("lines") == [0, 1, 2]
        cluster.resume("split")
        cluster.run_until_idle()
        assert sorted(cluster.executed("split")) == [("",), ("a",), ("a b",)]
        assert sorted(cluster.acked("split")) == [("a",), ("a b",)]
        failure = Failure(FailReason.FAILED, "nothing to split", "split")
        assert (cluster.failed("split"), cluster.failed("lines")) == ([(("",), failure)], [(1, failure)])
        assert (sorted(cluster.acked("lines")), cluster.pending("lines")) == ([0, 2], [])
        assert sorted(cluster.executed("count", 0) + cluster.executed("count", 1)) == [("a",), ("a",), ("b",)]
        assert all(outcome.at == 0 for outcome in cluster.outcomes("lines"))
        stats = cluster.stats("count")
        assert (stats.tasks, stats.executed, stats.acked, stats.counters) == ((0, 1), 3, 3, {"words": 3})
        assert cluster.bolt("count", 0).counts + cluster.bolt("count", 1).counts == Counter("aab")


def test_dead_letters_of_bolts_and_ackers_are_shown() -> None:
    with fed() as cluster:
        inbox = "words.tuples.split"
        cluster.broker.append(inbox, 0, b"k", b"\xff", [("source", b"lines/default"), ("mine", b"x")])
        cluster.broker.append("words.acks", 3, None, b"junk", None)
        cluster.run_until_idle()
        of_acker, letter = sorted(cluster.dead_letters(), key=lambda each: each.by)
        assert (letter.topic, letter.partition, letter.offset, letter.reason) == (inbox, 0, 0, "bad-payload")
        assert (letter.by, letter.key, letter.value) == ("split/0", b"k", b"\xff")
        assert letter.headers == {"source": b"lines/default", "mine": b"x"}
        assert cluster.executed("split") == []
        shown = (of_acker.by, of_acker.topic, of_acker.partition, of_acker.value)
        assert shown == ("acker", "words.acks", 3, b"junk")


def test_a_record_that_has_no_room_for_the_headers_of_a_dead_letter_leaves_its_value_out() -> None:
    with fed() as cluster:
        # Not zeros, which a producer compresses.
        cluster.broker.append("words.acks", 3, None, random.Random(1).randbytes(1_048_400), None)
        cluster.run_until_idle()
        (letter,) = cluster.dead_letters()
        assert (letter.by, letter.topic, letter.value) == ("acker", "words.acks", None)
        with pytest.raises(SimulationError, match=r"does not fit into words\.acks"):
            cluster.broker.append("words.acks", 3, None, bytes(1_048_577), None)


def test_sources_replace_a_spout_and_are_not_replayed() -> None:
    messages: list[Any] = [FixedTuple(("a",), "urgent", "mine"), ("b",), FixedTuple(("c",), message_id=None), ("",)]
    done = complete_topology(words(), sources={"lines": messages})
    assert sorted(map(str, done.acked("lines"))) == ["1", "mine"]
    assert (done.emitted("lines", "urgent"), len(done.failed("lines"))) == ([("a",)], 1)
    assert sorted(done.executed("count")) == [("a",), ("b",), ("c",)]
    with fed() as cluster:
        assert cluster.feed("lines", ("a",)) == 0
        assert cluster.feed("lines", ("b",), message_id="mine", stream="urgent") == "mine"
        cluster.run_until_idle()
        assert sorted(map(str, cluster.acked("lines"))) == ["0", "mine"]


class HoldFirst(Hold):
    streams = Split.streams

    def execute(self, tuple_: Tuple) -> None:
        super().execute(tuple_)
        self.collector.reset_timeout(self.held[0])


def test_a_tree_has_a_largest_age_and_complete_topology_waits_for_timeouts() -> None:
    done = complete_topology(words(split=HoldFirst), sources={"lines": [("a",)]})
    assert done.failed("lines") == [(0, Failure(FailReason.TIMEOUT))]
    topology = words(split=HoldFirst, message_timeout=5, max_tree_age=20)
    with SimulatedCluster(topology, sources={"lines": []}) as cluster:
        cluster.feed("lines", ("a",))
        for _ in range(12):
            cluster.advance(2)
            cluster.feed("lines", ("b",), message_id=None)
        assert cluster.failed("lines") == [(0, Failure(FailReason.TOO_OLD))]
        assert 20 <= cluster.outcomes("lines")[0].at <= 22


def external() -> Topology:
    builder = TopologyBuilder("mixed")
    streams = [declare({"word": str}, codec="avro")]
    builder.set_spout("lines", "a-topic", external=True, streams=streams)
    builder.set_bolt("split", lambda rows: rows, external=True, streams=streams).shuffle_grouping("lines")
    return builder.build()


@pytest.mark.parametrize(
    ("attempt", "message"),
    [
        (lambda cluster: cluster.emitted("missing"), "no component 'missing': it has lines, split, count"),
        (lambda cluster: cluster.kill("missing"), "no component 'missing': it has lines, split, count"),
        (lambda cluster: cluster.pause("missing"), "no component 'missing'"),
        (lambda cluster: cluster.kill("split", 2), "'split' has no task 2: it has 2, numbered from 0"),
        (lambda cluster: cluster.resume("split"), "'split' is not paused: nothing is"),
        (lambda cluster: cluster.pending("split"), "'split' is a bolt"),
        (lambda cluster: cluster.bolt("lines"), "'lines' is a spout"),
        (lambda cluster: cluster.broker.records("nothing"), "there is no topic 'nothing'"),
        (lambda cluster: cluster.broker.append("words.acks", 8, None, b"", None), "has no partition 8: it has 8"),
        (lambda cluster: cluster.advance(-1), "seconds is -1"),
        (lambda _: SimulatedCluster(external()), r"'lines' is external.*sources={'lines': ...}"),
        (lambda _: SimulatedCluster(external(), sources={"lines": []}), r"'split' is external.*bolts={'split': ...}"),
        (lambda _: SimulatedCluster(words(), step=0), "step is 0: it must be"),
        (lambda _: SimulatedCluster(words(), sources={"missing": []}), "no spout 'missing' to replace: it has"),
        (lambda _: SimulatedCluster(words(), bolts={"missing": Count}), "no bolt 'missing' to replace: it has"),
        (lambda _: SimulatedCluster(words()).feed("lines", ("a",)), r"sources={'lines': \[\]}"),
    ],
)
def test_invalid_arguments_of_the_kit_are_rejected(attempt: Callable[[SimulatedCluster], Any], message: str) -> None:
    with fed() as cluster, pytest.raises(SimulationError, match=message):
        attempt(cluster)


def test_a_message_is_bytes_or_text() -> None:
    with fed() as cluster, pytest.raises(TypeError, match=r"bytes, text or None, not dict: json\.dumps"):
        cluster.produce("words.acks", {"word": "a"})  # type: ignore[arg-type]


def test_a_closed_cluster_can_only_be_read() -> None:
    with fed("a") as cluster:
        cluster.run_until_idle()
    cluster.close()
    assert cluster.acked("lines") == [0]
    for work in (cluster.run_until_idle, partial(cluster.advance, 1), partial(cluster.kill, "split")):
        with pytest.raises(SimulationError, match="the cluster is closed"):
            work()


def test_a_run_without_an_end_is_stopped() -> None:
    class Endless(Lines):
        def next_tuple(self) -> None:
            self.collector.emit(("again",), message_id=1)

    with SimulatedCluster(words(spout=Endless)) as cluster:
        with pytest.raises(NotIdleError, match=r"after \d+ records .* for .*lines.*mock it with sources"):
            cluster.run_until_idle(limit=100)
        cluster.run_until(lambda: len(cluster.acked("lines")) > 30)
        assert cluster.stats("count").executed >= 30
    with fed("a") as cluster, pytest.raises(NotIdleError, match="nothing is left to do, and the condition"):
        cluster.run_until(lambda: False)


def test_a_state_that_does_not_exist_cannot_be_requested() -> None:
    with fed("a") as cluster, pytest.raises(TopologyError, match="it must be one of running, paused, draining"):
        cluster.request("stop")  # type: ignore[arg-type]
