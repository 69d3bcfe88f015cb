"""Windows by event time on Kafka, with each guarantee that follows trees."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
from confluent_kafka import Producer

from spout_sdk import BasicBolt, BasicCollector, Tuple, Window, WindowedBolt, declare, sliding
from tests.contract.components import STREAMS, Messages, MessageSpout, tuples_in
from tests.contract.real import Real, RealWorld
from tests.kafka.test_guarantees import Refused
from tuple_tree.manifest import Guarantee
from tuple_tree.names import tuples_topic

LENGTH, EVERY = 100, 50
"""Of windows, in the milliseconds that messages have as their number."""


class Windows(WindowedBolt):
    """Emits where each window ends, and how many tuples it holds."""

    window = (
        sliding(seconds=LENGTH / 1000, every=EVERY / 1000)
        .with_timestamp_field("number")
        .with_lag(0.01)
        .with_watermark_interval(0.02)
        .with_late_tuple_stream("late")
    )
    streams = (*STREAMS, declare({"word": str, "number": int}, name="late"))

    def execute_window(self, window: Window) -> None:
        self.collector.emit((f"{window.end * 1000:.0f}", len(window.tuples)))


class Keep(BasicBolt):
    """The test reads its inbox."""

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None: ...


class RefusedWindows(Refused):
    """Refuses transactions of the bolt with windows alone."""

    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__(settings)
        self.is_refused = ".windows." in settings.get("transactional.id", "")

    def send_offsets_to_transaction(self, positions: Any, group_metadata: Any, timeout: float = -1) -> None:
        if self.is_refused:
            super().send_offsets_to_transaction(positions, group_metadata, timeout)
        else:
            Producer.send_offsets_to_transaction(self, positions, group_metadata, timeout)


def emitted(running: Real, stream: str) -> list[tuple[str, int]]:
    """The committed outputs of the windows."""
    source = f"windows/{stream}".encode()
    records = running.records(tuples_topic(running.topology.name, "keep"))
    return [values for values, _ in tuples_in([each for each in records if each.header["source"] == source])]


def add_numbers(messages: Messages, numbers: Sequence[int]) -> None:
    for number in numbers:
        messages.add(str(number), number)


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_each_window_is_there_once_and_late_tuples_have_a_stream(
    world: RealWorld, monkeypatch: pytest.MonkeyPatch, guarantee: Guarantee
) -> None:
    """With `exactly_once` though two transactions are aborted, and the task moves in the middle of windows."""
    monkeypatch.setattr("kafka_clients.producer.Producer", RefusedWindows)
    builder = world.builder(guarantee=guarantee, message_timeout=120, ack_partitions=2)
    messages = Messages()
    builder.set_spout("spout", partial(MessageSpout, messages))
    builder.set_bolt("windows", Windows).shuffle_grouping("spout")
    builder.set_bolt("keep", Keep).shuffle_grouping("windows").shuffle_grouping("windows", "late")
    with world.run(builder.build()) as running:
        add_numbers(messages, range(300))
        running.eventually(lambda: ("250", LENGTH) in emitted(running, "default"), "windows that have closed")
        monkeypatch.setattr(Refused, "refusals", 2 if guarantee == "exactly_once" else 0)
        # Out of order within the lag, and too late for any window.
        add_numbers(messages, [309, *range(300, 309), 10, *range(310, 400)])
        running.eventually(lambda: not Refused.refusals, "the transactions refused")
        running.eventually(lambda: emitted(running, "late"), "the late tuple")
        if guarantee == "exactly_once":
            running.runners["windows"].stop()
            running.threads["windows"].join()
            running.start("windows")
        add_numbers(messages, [*range(400, 500), 10_000])
        running.eventually(lambda: len(messages.acked) >= 501, "all acked but for what is held")
        found = emitted(running, "default")
        late = emitted(running, "late")
        assert running.stats("windows").rollbacks == (2 if guarantee == "exactly_once" else 0)
    ends = range(EVERY, 500 + LENGTH, EVERY)
    expected = [(str(end), min(end, LENGTH, 500 + LENGTH - end)) for end in ends]
    assert late == [("10", 10)]
    assert not messages.failed
    assert found == expected
