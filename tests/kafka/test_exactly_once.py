"""Bolts killed with SIGKILL at chosen steps: each output is there once, or with less of a guarantee it is not."""

import logging
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from local_kafka import LocalKafka
from spout_sdk import ComponentRunner, Stats, load_topology
from spout_sdk.kafka_settings import TRANSACTION_MS
from tests.kafka.guarantee_rig import MODULE, Start, acking, produce_numbers, start_again, starter
from tests.kafka.guarantee_topologies import ARMED, COPIES, REFUSED, STEPS
from tests.waiting import eventually

logger = logging.getLogger(__name__)


@pytest.fixture
def start(bootstrap_servers: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Start:
    return starter(bootstrap_servers, monkeypatch, tmp_path)


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalKafka]:
    with LocalKafka() as kafka:
        yield kafka


@pytest.mark.exhaustive
def test_ten_kills_leave_no_output_missing_and_none_twice(start: Start) -> None:
    run = start("exactly_once")
    with acking(run.cluster), run.runner:
        run.flows()
        for step in random.sample(STEPS, len(STEPS)):
            run.spoil()
            run.kill_at(step)
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
    assert spout.failed == {}
    assert spout.counters == {}
    assert spout.acked == spout.emitted


def test_at_least_once_repeats_where_exactly_once_does_not(start: Start) -> None:
    """So that the count above is known to find repeats."""
    run = start("at_least_once", processes=1)
    with acking(run.cluster), run.runner:
        run.flows()

        def repeats() -> bool:
            # It may have had nothing to commit: a machine that stands still executes nothing between two commits.
            run.kill_at("flushed")
            run.produces()
            return max(run.outputs().values()) > 1

        eventually(repeats, "an output that is there twice", 90)
        run.enough()
        # Some were executed twice by then, which does not say that all were once.
        eventually(lambda: all(at == end for at, end in run.cluster.progress("transform").values()), "all of them", 90)
    assert run.outputs().keys() == run.expected().keys()


def test_a_clean_stop_of_exactly_once_does_nothing_again(start: Start) -> None:
    run = start("exactly_once", processes=1)
    run.enough()
    produce_numbers(run, 5_000)
    with run.runner:
        eventually(lambda: run.runner.stats()["transform"].executed > 100, "some inputs executed")
    again = start_again(run)
    with again.runner:
        eventually(lambda: run.outputs().total() >= COPIES * 5_000, "all outputs")
    assert run.outputs() == run.expected()
    executed = [each.runner.stats()["transform"].executed for each in (run, again)]
    assert sum(executed) == 5_000, executed


@pytest.mark.exhaustive
def test_inputs_that_are_collected_without_emitting_may_stay_behind(start: Start) -> None:
    run = start("windows")
    with acking(run.cluster), run.runner:
        for step in ("emitted", "executing", "committed", "offsets"):
            run.flows()
            run.kill_at(step)
        run.flows()
        run.enough()
        # What does not fill a window stays open.
        left = 3 * 6

        def full_windows() -> Stats | None:
            # A process says twice a second how it does: what it said last may be older than what is in the topics.
            spout = run.spout
            whole = spout.emitted == len(run.inputs()) and len(run.outputs()) == COPIES * spout.acked
            return spout if whole and spout.acked >= spout.emitted - left else None

        spout = eventually(full_windows, "all windows that are full", 90)
    assert spout is not None
    assert spout.failed == {}
    assert spout.counters == {}
    outputs = run.outputs()
    assert set(outputs.values()) == {1}
    assert len(outputs) == COPIES * spout.acked


def test_inputs_that_are_held_back_after_emitting_for_them_are_refused(start: Start) -> None:
    run = start("slides", **{"transaction.timeout.ms": 4_000})
    with acking(run.cluster), run.runner:
        eventually(lambda: run.exits, "the end of a process")
    exit_ = run.exits[0]
    assert exit_.code == 1
    assert "holds back its input at offset" in exit_.error
    assert exit_.error.endswith('or build the topology with guarantee="at_least_once"')
    assert run.outputs() == Counter()


def test_a_transaction_that_is_refused_is_done_again(start: Start) -> None:
    run = start("exactly_once")
    with acking(run.cluster), run.runner:
        for _ in range(3):
            run.flows()
            run.arm(REFUSED)
            eventually(lambda: not run.directory.joinpath(ARMED).exists(), "a refused transaction")
        run.flows()
        run.finish()
    # A process says what it has done twice a second, and the last of it at its end.
    spout, transform = run.spout, run.runner.stats()["transform"]
    assert run.exits == []
    assert run.outputs() == run.expected()
    assert spout.failed == {}
    assert spout.counters == {}
    assert transform.executed > spout.emitted, "some inputs were executed again"


def test_what_the_broker_refuses_each_time_ends_the_process(start: Start) -> None:
    run = start("large", processes=1)
    run.enough()
    topic = f"{run.name}.tuples.sink"
    resource = ConfigResource(
        ConfigResource.Type.TOPIC,
        topic,
        incremental_configs=[ConfigEntry("max.message.bytes", "500", incremental_operation=AlterConfigOpType.SET)],
    )
    admin = AdminClient(run.cluster.bootstrap)
    for altered in admin.incremental_alter_configs([resource]).values():
        altered.result(30)
    produce_numbers(run, 3)
    with run.runner:
        eventually(lambda: run.exits, "the end of the process")
    assert run.exits[0].code == 1
    assert "transform could not commit 5 transactions in a row: a record for " + topic in run.exits[0].error
    assert "was not delivered: Broker: Message size too large" in run.exits[0].error


def test_tasks_that_move_repeat_nothing(start: Start) -> None:
    run = start("exactly_once", processes=1)
    second = ComponentRunner(load_topology(f"{MODULE}:exactly_once"), "transform", run.cluster.kafka)
    thread = threading.Thread(target=second.run)
    with acking(run.cluster), run.runner:
        run.flows()
        thread.start()
        try:
            eventually(lambda: second.stats.executed > 50, "both work")
            run.flows()
        finally:
            second.stop()
            thread.join(60)
        run.flows()
        run.finish()
    # A process says what it has done twice a second, and the last of it at its end.
    spout, transform = run.spout, run.runner.stats()["transform"]
    assert run.exits == []
    assert run.outputs() == run.expected()
    assert (spout.failed, spout.counters) == ({}, {})
    assert transform.executed + second.stats.executed >= spout.emitted


@pytest.mark.exhaustive
@pytest.mark.parametrize("step", ["flushed", "offsets"])
def test_a_process_that_stands_still_holds_the_acker_up_no_longer_than_its_transaction(
    start: Start, broker: LocalKafka, step: str
) -> None:
    # Of its own, for how soon a broker looks is a setting.
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
        logger.warning("stopped at %s: no tree was acked for %.1f s", step, longest)
        os.kill(stopped, signal.SIGCONT)
        eventually(lambda: run.exits, "the process that woke up to end")
        run.flows()
        run.finish()
        spout = run.spout
    # It really hung, and not for longer than its transaction; the margin is for a loaded machine.
    assert 5 < longest < TRANSACTION_MS / 1000 + 1 + 3
    assert [exit_.code for exit_ in run.exits] == [1]
    assert "transform was put out of its transaction" in run.exits[0].error
    assert run.outputs() == run.expected()
    assert spout.failed == {}
    assert spout.counters == {}


def test_a_restarted_process_ends_the_transaction_of_its_predecessor_at_once(start: Start) -> None:
    run = start("exactly_once", **{"transaction.timeout.ms": 90_000})
    with acking(run.cluster), run.runner:
        run.flows()
        run.kill_at("flushed")
        acked = run.spout.acked
        # Those of the other process lie behind it in the ack log, and would wait for the time-out.
        eventually(lambda: run.spout.acked > acked + 50, "more trees acked", 60)
        run.finish()
    assert run.outputs() == run.expected()


@pytest.mark.exhaustive
def test_a_process_that_stood_still_between_transactions_goes_on(start: Start) -> None:
    """Its place in the group is gone, and what it had read is somebody else's; it must not write for that."""
    run = start("exactly_once")
    with acking(run.cluster), run.runner:
        run.flows()
        stopped = run.stop_at("committed")
        at = run.cluster.progress("transform")
        eventually(
            lambda: all(now > at[task][0] + 10 for task, (now, _) in run.cluster.progress("transform").items()),
            "the other process goes on with all tasks",
            90,
        )
        os.kill(stopped, signal.SIGCONT)
        run.flows()
        run.finish()
        spout = run.spout
    assert run.outputs() == run.expected()
    assert (spout.failed, spout.counters) == ({}, {})
    assert run.exits == []
