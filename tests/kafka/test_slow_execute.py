"""An `execute` that takes longer than the message timeout, or raises for longer: nothing fails, the process stays."""

import logging
import threading
from functools import partial
from pathlib import Path

import pytest

from spout_sdk import BasicBolt, BasicCollector, Exit, TopologyRunner, Tuple, declare
from tests.contract.components import Messages, MessageSpout
from tests.contract.real import RealWorld
from tests.kafka.sdk_rig import Use, acking
from tests.kafka.sdk_topologies import HOLD, LINES
from tests.waiting import eventually

pytestmark = pytest.mark.exhaustive

TIMEOUT, MESSAGES = 6.0, 200


class Work(BasicBolt):
    """Waits in one tuple until the test goes on."""

    finish = threading.Event()

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        if tuple_["word"] == "0":
            assert self.finish.wait(60)


def test_its_trees_and_those_that_wait_are_acked_and_a_warning_names_the_tuple(
    world: RealWorld, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Work, "finish", threading.Event())
    builder = world.builder(message_timeout=TIMEOUT, ack_partitions=2)
    messages = Messages()
    builder.set_spout("spout", partial(MessageSpout, messages))
    builder.set_bolt("work", Work, tasks=2).shuffle_grouping("spout")
    for number in range(MESSAGES):
        messages.add(str(number))
    with caplog.at_level(logging.WARNING, "spout_sdk"), world.run(builder.build()) as running:
        # Of its process nothing else is executed meanwhile, neither of its other task.
        running.eventually(lambda: running.stats("work").stalled_seconds > 2.5 * TIMEOUT, "it takes long")
        assert "execute has not returned, at " in running.stats("work").stalled_by
        for number in range(MESSAGES, 2 * MESSAGES):
            messages.add(str(number))
        running.eventually(lambda: running.stats("work").stalled_seconds > 4.5 * TIMEOUT, "it takes longer")
        assert not messages.acked
        Work.finish.set()
        running.eventually(lambda: len(messages.acked) == 2 * MESSAGES, "all acked")
        running.eventually(lambda: running.has_committed_all("work"), "all committed")
        running.eventually(lambda: running.stats("work").stalled_seconds == 0, "nothing stalls")
    assert not messages.failed
    warnings = [line for line in caplog.messages if "one execute has been running for" in line]
    assert len(warnings) == 3
    assert not [line for line in caplog.messages if "reset-timeouts" in line]


class Store(BasicBolt):
    """Raises until the test goes on; notes what it has executed."""

    is_down = threading.Event()

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        if self.is_down.is_set():
            raise ConnectionError("the database is down")


class Before(BasicBolt):
    """The step before."""

    streams = (declare({"word": str}),)

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        collector.emit((tuple_["word"],))


def test_what_waits_for_a_bolt_that_pauses_is_neither_failed_nor_executed_again(
    world: RealWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Store, "is_down", threading.Event())
    Store.is_down.set()
    builder = world.builder(message_timeout=TIMEOUT, max_tree_age=20 * TIMEOUT, ack_partitions=2)
    messages = Messages()
    builder.set_spout("spout", partial(MessageSpout, messages))
    builder.set_bolt("before", Before).shuffle_grouping("spout")
    builder.set_bolt("store", Store, tasks=2, on_exception="retry").shuffle_grouping("before")
    for number in range(MESSAGES):
        messages.add(str(number))
    with world.run(builder.build()) as running:
        running.eventually(lambda: running.stats("store").paused_seconds > 1.5 * TIMEOUT, "it pauses")
        assert "ConnectionError: the database is down; tries again in " in running.stats("store").paused_by
        assert running.stats("store").stalled_seconds == 0
        for number in range(MESSAGES, 2 * MESSAGES):
            messages.add(str(number))
        running.eventually(lambda: running.stats("store").paused_seconds > 4 * TIMEOUT, "it pauses for long")
        assert not messages.acked
        Store.is_down.clear()
        running.eventually(lambda: len(messages.acked) == 2 * MESSAGES, "all acked")
        running.eventually(lambda: running.stats("store").paused_seconds == 0, "it has continued")
        running.eventually(lambda: running.has_committed_all("store"), "all committed")
        assert running.stats("before").executed == 2 * MESSAGES
    assert not messages.failed


def test_a_process_whose_execute_exceeds_max_poll_interval_ms_ends_with_that_reason(
    use: Use, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    hold = tmp_path / "hold"
    hold.touch()
    monkeypatch.setenv(HOLD, str(hold))
    cluster = use("words")
    exits: list[Exit] = []

    def on_exit(exit_: Exit) -> None:
        exits.append(exit_)
        hold.unlink(missing_ok=True)

    kafka = {**cluster.kafka, "max.poll.interval.ms": 6_000}
    with acking(cluster), TopologyRunner("tests.kafka.sdk_topologies:words", kafka, on_exit=on_exit) as runner:
        eventually(lambda: runner.stats()["lines"].counters.get("acked") == LINES, "every line acked", 120)
    [ended] = exits
    assert (ended.component, ended.code) == ("split", 1)
    assert "one execute ran for 6 s, longer than max.poll.interval.ms allows (6 s)" in ended.error
    assert ended.error in capfd.readouterr().err
