"""What dies and stands still in a simulated cluster."""

from typing import Any

import pytest

from spout_sdk import (
    ComponentError,
    TaskContext,
)
from spout_sdk.testing import SimulatedCluster, SimulationError
from tests.unit.sdk.kit_words import Lines, Split, fed, words


class TestTrouble:
    def test_a_killed_bolt_reads_again_what_was_not_committed(self) -> None:
        with fed("a b", "c d") as cluster:
            cluster.run_until_idle()
            before = cluster.bolt("count")
            executed = len(cluster.executed("count", 0))
            cluster.kill("count")
            cluster.run_until_idle()
            assert cluster.bolt("count") is not before
            assert len(cluster.executed("count", 0)) == 2 * executed
            assert sorted(cluster.acked("lines")) == [0, 1]
            assert cluster.stats("count").executed == len(cluster.executed("count"))

    def test_a_second_later_it_was_committed(self) -> None:
        with fed("a b", "c d") as cluster:
            cluster.advance(1)
            for task in range(2):
                cluster.kill("split", task)
                cluster.kill("count", task)
            cluster.run_until_idle()
            assert len(cluster.executed("split")) == 2
            assert len(cluster.executed("count")) == 4
            assert sum(cluster.committed("split").values()) == 2

    def test_a_killed_task_is_not_cleaned_up_and_a_restarted_one_is(self) -> None:
        Split.cleaned_up = 0
        with fed("a b") as cluster:
            cluster.advance(1)
            cluster.kill("split")
            assert Split.cleaned_up == 0
            cluster.restart("split")
            cluster.restart("split", task=1)
            assert Split.cleaned_up == 2
            cluster.run_until_idle()
            assert len(cluster.executed("split")) == 1
        assert Split.cleaned_up == 4

    def test_with_exactly_once_nothing_is_executed_twice(self) -> None:
        topology = words(guarantee="exactly_once")
        with SimulatedCluster(topology, sources={"lines": [("a b c",)] * 20}) as cluster:
            for target in (10, 20, 30):
                cluster.run_until(lambda target=target: len(cluster.executed("count")) >= target)  # type: ignore[misc]
                for task in range(2):
                    cluster.kill("split", task)
                    cluster.kill("count", task)
            cluster.run_until_idle()
            assert len(cluster.executed("count")) == 60
            assert sorted(cluster.acked("lines")) == list(range(20))

    def test_a_killed_spout_forgets_what_is_pending(self) -> None:
        with fed("a", paused=["count"]) as cluster:
            cluster.run_until_idle()
            cluster.kill("lines")
            cluster.resume("count")
            cluster.run_until_idle()
            assert not cluster.pending("lines")
            assert not cluster.acked("lines")
            # The outcome was told to the task that is no more, or found a spout that does not hold it.
            assert cluster.stats("lines").emitted == 1

    def test_killed_ackers_rebuild_what_is_open(self) -> None:
        with fed("a", "b", paused=["count"]) as cluster:
            cluster.advance(3)
            cluster.kill_acker()
            cluster.advance(3)
            cluster.kill_acker()
            cluster.resume("count")
            cluster.run_until_idle()
            assert sorted(cluster.acked("lines")) == [0, 1]

    def test_an_exception_of_a_component_comes_as_it_is(self) -> None:
        class Broken(Lines):
            def ack(self, message_id: Any) -> None:
                raise ZeroDivisionError("by zero")

        with SimulatedCluster(words(spout=Broken)) as cluster, pytest.raises(ComponentError, match="by zero"):
            cluster.run_until_idle()

    def test_a_bolt_that_cannot_be_prepared(self) -> None:
        class Broken(Split):
            def prepare(self, context: TaskContext) -> None:
                raise OSError("no such file")

        with pytest.raises(ComponentError, match="no such file"):
            SimulatedCluster(words(split=Broken))

    def test_what_is_unknown(self) -> None:
        with fed() as cluster:
            for read in (cluster.emitted, cluster.executed, cluster.acked, cluster.stats, cluster.kill, cluster.pause):
                with pytest.raises(SimulationError, match="no component 'nobody': it has lines, split, count"):
                    read("nobody")
            with pytest.raises(SimulationError, match="'split' has no task 2: it has 2, numbered from 0"):
                cluster.kill("split", 2)
            with pytest.raises(SimulationError, match="'split' is not paused: nothing is"):
                cluster.resume("split")
            with pytest.raises(SimulationError, match="'split' is a bolt"):
                cluster.pending("split")
            with pytest.raises(SimulationError, match="'lines' is a spout"):
                cluster.bolt("lines")
            with pytest.raises(SimulationError, match="there is no topic 'nothing'"):
                cluster.broker.records("nothing")
            with pytest.raises(SimulationError, match=r"words\.acks has no partition 8: it has 8"):
                cluster.broker.append("words.acks", 8, None, b"", None)
