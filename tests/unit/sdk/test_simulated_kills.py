"""Kills and pauses in a simulated cluster."""

from typing import Any

import pytest

from spout_sdk import TaskContext
from spout_sdk.errors import ComponentError
from spout_sdk.testing import SimulatedCluster
from tests.unit.sdk.kit_words import Lines, Split, fed, words


def test_a_killed_bolt_reads_uncommitted_inputs_again() -> None:
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


def test_acked_inputs_are_committed_within_a_second() -> None:
    with fed("a b", "c d") as cluster:
        cluster.advance(1)
        for task in range(2):
            cluster.kill("split", task)
            cluster.kill("count", task)
        cluster.run_until_idle()
        assert (len(cluster.executed("split")), len(cluster.executed("count"))) == (2, 4)
        assert sum(cluster.committed("split").values()) == 2


def test_a_killed_task_is_not_cleaned_up_and_a_restarted_one_is() -> None:
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


def test_with_exactly_once_nothing_is_executed_twice() -> None:
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


def test_a_killed_spout_loses_its_pending_messages() -> None:
    with fed("a", paused=["count"]) as cluster:
        cluster.run_until_idle()
        cluster.kill("lines")
        cluster.resume("count")
        cluster.run_until_idle()
        assert (cluster.pending("lines"), cluster.acked("lines"), cluster.stats("lines").emitted) == ([], [], 1)


def test_an_exception_of_a_component_is_raised_unchanged() -> None:
    class BrokenLines(Lines):
        def ack(self, message_id: Any) -> None:
            raise ZeroDivisionError("by zero")

    class BrokenSplit(Split):
        def prepare(self, context: TaskContext) -> None:
            raise OSError("no such file")

    with SimulatedCluster(words(spout=BrokenLines)) as cluster, pytest.raises(ComponentError, match="by zero"):
        cluster.run_until_idle()
    with pytest.raises(ComponentError, match="no such file"):
        SimulatedCluster(words(split=BrokenSplit))


def test_the_same_seed_gives_the_same_run_and_another_seed_another() -> None:
    def story(seed: int) -> list[Any]:
        with fed(*(f"{number} a b c" for number in range(50)), seed=seed) as cluster:
            cluster.run_until(lambda: len(cluster.executed("count")) > 30)
            cluster.kill("split")
            cluster.kill_acker()
            cluster.advance(2)
            return [
                cluster.executed("count"),
                cluster.outcomes("lines"),
                [(one.values, one.roots, one.recipients) for one in cluster.emissions("split")],
                [record.value() for record in cluster.broker.records("words.acks")],
            ]

    assert story(7) == story(7)
    assert story(7)[0] != story(8)[0]
