"""An `execute` that takes longer than the message timeout on a real broker: nothing fails, the process stays."""

import logging
import threading
from functools import partial

import pytest

from spout_sdk import BasicBolt, BasicCollector, Tuple
from tests.contract.components import Messages, MessageSpout
from tests.contract.real import RealWorld

pytestmark = pytest.mark.exhaustive

TIMEOUT, MESSAGES = 6.0, 200


class Work(BasicBolt):
    """Waits in one tuple until the test continues."""

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
