"""Bolts killed with SIGKILL at chosen steps: each output exists once; with a weaker guarantee it does not."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from local_kafka import LocalKafka
from spout_sdk import Stats
from spout_sdk.kafka.kafka_settings import TRANSACTION_MS
from tests.kafka.guarantee_rig import Run, Start, starter
from tests.kafka.guarantee_topologies import COPIES, STEPS
from tests.kafka.sdk_rig import acking
from tests.waiting import eventually

pytestmark = pytest.mark.exhaustive


@pytest.fixture
def start(bootstrap_servers: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Start:
    return starter(bootstrap_servers, monkeypatch, tmp_path)


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalKafka]:
    with LocalKafka() as kafka:
        yield kafka


def none_failed_or_repeated(spout: Stats) -> bool:
    return (spout.failed, spout.counters) == ({}, {})


def all_inputs_committed(run: Run) -> bool:
    return all(at == end for at, end in run.cluster.progress("transform").values())


def test_ten_kills_leave_no_output_missing_and_none_twice(start: Start) -> None:
    # A transaction that a successor did not abort would outlast every wait of this test.
    run = start("exactly_once", **{"transaction.timeout.ms": 240_000})
    with acking(run.cluster), run.runner:
        run.kill_at_each_step()
        for _ in range(4):
            run.flows()
            run.spoil()
            run.kill()
        assert len(run.exits) == 10
        run.finish()
        spout = run.spout
    assert sorted(run.inputs()) == list(range(spout.emitted))
    assert run.outputs() == run.expected()
    assert run.dead_letters() == 10
    assert none_failed_or_repeated(spout)
    assert spout.acked == spout.emitted


def test_kills_lose_no_window_and_close_none_twice(start: Start) -> None:
    run = start("windows", **{"transaction.timeout.ms": 240_000})
    with acking(run.cluster), run.runner:
        run.kill_at_each_step()
        for _ in range(2):
            run.flows()
            run.kill()
        run.flows()
        run.enough()
        eventually(lambda: len(run.inputs()) == run.spout.emitted, "all inputs there")
        inputs = run.inputs_of_tasks()
        last = {task: max(number for of, number in inputs if of == task) for task, _ in inputs}
        # The last window of each task stays open.
        closed = {(number, copy) for task, number in inputs if number < last[task] // 50 * 50 for copy in range(COPIES)}
        eventually(lambda: run.outputs().keys() >= closed, "all windows closed", 90)
        eventually(lambda: run.spout.acked * COPIES >= len(closed), "what was in them acked", 90)
        spout = run.spout
    outputs = run.outputs()
    assert outputs.keys() == closed
    assert set(outputs.values()) == {1}
    assert run.dead_letters() == len(STEPS)
    assert none_failed_or_repeated(spout)


def test_at_least_once_repeats_where_exactly_once_does_not(start: Start) -> None:
    """The count of the test above detects repeats."""
    run = start("at_least_once", processes=1)
    with acking(run.cluster), run.runner:
        run.flows()

        def repeats() -> bool:
            # It may have had nothing to commit: a suspended machine executes nothing between two commits.
            run.kill_at("flushed")
            run.produces()
            return max(run.outputs().values()) > 1

        eventually(repeats, "an output that is there twice", 90)
        run.enough()
        eventually(lambda: all_inputs_committed(run), "all inputs committed", 90)
    assert run.outputs().keys() == run.expected().keys()


@pytest.mark.parametrize("step", ["executing", "emitted", "committed"])
def test_at_most_once_repeats_nothing(start: Start, step: str) -> None:
    run = start("at_most_once", processes=1)
    with run.runner:
        for _ in range(2):
            run.produces()
            run.kill_at(step)
        run.produces()
        run.enough()
        eventually(lambda: all_inputs_committed(run), "all inputs committed")
    outputs, expected = run.outputs(), run.expected()
    assert set(outputs.values()) == {1}
    assert outputs.keys() <= expected.keys()
    if step != "emitted":
        # So that a kill is known to lose something: an input was committed, and not executed any more.
        assert outputs.keys() < expected.keys()


@pytest.mark.parametrize("step", ["flushed", "offsets"])
def test_a_suspended_process_delays_the_acker_by_its_transaction_timeout_at_most(
    start: Start, broker: LocalKafka, step: str
) -> None:
    # On a broker of its own, for how soon a broker aborts what has timed out is a setting.
    run = start("exactly_once", servers=broker.bootstrap_servers, **{"transaction.timeout.ms": TRANSACTION_MS})
    with acking(run.cluster), run.runner:
        run.flows()
        stopped = run.stop_at(step)
        began, acked, longest = time.monotonic(), run.spout.acked, 0.0
        since = began

        def is_over() -> bool:
            nonlocal acked, since, longest
            now, before = time.monotonic(), acked
            acked = run.spout.acked
            longest = max(longest, now - since)
            if acked > before:
                since = now
            # Its tasks have gone to the other process, which waits for the outcome of their offsets.
            return now - began > 20

        eventually(is_over, "twenty seconds")
        rollbacks = run.runner.stats()["transform"].rollbacks
        os.kill(stopped, signal.SIGCONT)
        # Its producer is fenced, and its consumer was a member of the group; without a session it may have to end.
        eventually(
            lambda: run.exits or run.runner.stats()["transform"].rollbacks > rollbacks,
            "the process that woke up to undo",
        )
        run.flows()
        run.finish()
        spout = run.spout
    # It really hung, and not for longer than its transaction; the margin is for a loaded machine.
    assert 5 < longest < TRANSACTION_MS / 1000 + 1 + 3
    assert all("fenced" in exit_.error for exit_ in run.exits)
    assert run.outputs() == run.expected()
    assert none_failed_or_repeated(spout)
