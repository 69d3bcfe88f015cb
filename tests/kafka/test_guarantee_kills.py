"""Bolts killed with SIGKILL at chosen steps: each result exists once; with a weaker guarantee it does not."""

import os
import random
import signal
import time
from collections.abc import Iterator

import pytest

from local_kafka import LocalKafka
from spout_sdk.kafka.kafka_settings import TRANSACTION_MS
from tests.kafka.kill_rig import KilledRun, Start
from tests.kafka.killed import STEPS
from tests.kafka.sdk_rig import acking
from tests.waiting import eventually

pytestmark = pytest.mark.exhaustive


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalKafka]:
    with LocalKafka() as kafka:
        yield kafka


def check_once(run: KilledRun) -> None:
    assert run.results() == run.expected()
    assert run.spout.acked == run.fed, "no message was acked twice"


def test_ten_kills_leave_no_output_missing_and_none_twice(start: Start) -> None:
    # A transaction that a successor did not abort would outlast every wait of this test.
    run = start("exactly_once", processes=2, **{"transaction.timeout.ms": 240_000})
    with acking(run.cluster), run.runner:
        run.flows()
        for step in random.sample(STEPS, len(STEPS)):
            run.spoil()
            run.kill_at(step)
        for _ in range(4):
            run.flows()
            run.spoil()
            run.kill()
        run.finish()
    check_once(run)
    assert run.dead_letters() == len(run.exits) == len(STEPS) + 4


def test_at_least_once_repeats_where_exactly_once_does_not(start: Start) -> None:
    """The count of the test above detects repeats."""
    run = start("at_least_once")
    with acking(run.cluster), run.runner:
        run.flows()

        def repeats() -> bool:
            # It may have had nothing to commit: a suspended machine executes nothing between two commits.
            run.kill_at("flushed")
            run.produces()
            return max(run.results().values()) > 1

        eventually(repeats, "a result that is there twice", 90)
        eventually(lambda: run.results().keys() == run.expected().keys(), "every result", 90)


@pytest.mark.parametrize("step", ["executing", "emitted", "committed"])
def test_at_most_once_repeats_nothing(start: Start, step: str) -> None:
    run = start("at_most_once")
    with run.runner:
        for _ in range(2):
            run.produces()
            run.kill_at(step)
        run.produces()
        eventually(run.has_committed_inputs, "all inputs committed")
    results, expected = run.results(), run.expected()
    assert set(results.values()) == {1}
    assert results.keys() <= expected.keys()
    if step != "emitted":
        # So that a kill is known to lose something: an input was committed, and not executed any more.
        assert results.keys() < expected.keys()


@pytest.mark.parametrize("step", ["flushed", "offsets"])
def test_a_suspended_process_delays_the_acker_by_its_transaction_timeout_at_most(
    start: Start, broker: LocalKafka, step: str
) -> None:
    # On a broker of its own, for how soon a broker aborts what has timed out is a setting.
    servers, timeout = broker.bootstrap_servers, {"transaction.timeout.ms": TRANSACTION_MS}
    run = start("exactly_once", processes=2, servers=servers, **timeout)
    with acking(run.cluster), run.runner:
        run.flows()
        stopped = run.stop_at(step)
        began, acked, longest = time.monotonic(), run.arena.acked, 0.0
        since = began

        def is_over() -> bool:
            nonlocal acked, since, longest
            run.feed_more()
            now, before = time.monotonic(), acked
            acked = run.arena.acked
            longest = max(longest, now - since)
            if acked > before:
                since = now
            # Its tasks have gone to the other process, which waits for the outcome of their offsets.
            return now - began > 20

        eventually(is_over, "twenty seconds")
        rollbacks = run.runner.stats()["split"].rollbacks
        os.kill(stopped, signal.SIGCONT)
        # Its producer is fenced, and its consumer was a member of the group; without a session it may have to end.
        eventually(
            lambda: run.exits or run.runner.stats()["split"].rollbacks > rollbacks, "the process that woke up to undo"
        )
        run.flows()
        run.finish()
    check_once(run)
    # It really hung, and not for longer than its transaction; the margin is for a loaded machine.
    assert 5 < longest < TRANSACTION_MS / 1000 + 1 + 3
    assert all("fenced" in exit_.error for exit_ in run.exits)
