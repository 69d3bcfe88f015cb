"""Invalid numbers, groupings and tick intervals are rejected when a topology is built."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from spout_sdk import BasicBolt, BatchBolt, RetryPolicy, TopologyBuilder, TopologyError, WindowedBolt, declare, tumbling
from tests.contract.components import Does, Executed, Messages, Says, ack

INVALID: dict[str, tuple[Callable[[], Any], str]] = {
    "infinite timeout": (lambda: TopologyBuilder("t", message_timeout=float("inf")), "finite number of seconds"),
    "timeout that is no number": (lambda: TopologyBuilder("t", message_timeout=float("nan")), "finite number"),
    "timeout as text": (lambda: TopologyBuilder("t", message_timeout="5"), "'5'"),  # type: ignore[arg-type]
    "timeout of zero": (lambda: TopologyBuilder("t", message_timeout=0), "at least a millisecond"),
    "tick as a boolean": (lambda: TopologyBuilder("t", tick=True), "finite number"),
    "part of a partition": (lambda: TopologyBuilder("t", ack_partitions=1.5), "whole number"),  # type: ignore[arg-type]
    "no partition": (lambda: TopologyBuilder("t", ack_partitions=0), "at least 1"),
    "pending as text": (lambda: TopologyBuilder("t", max_spout_pending="9"), "whole number"),  # type: ignore[arg-type]
    "endless delay": (lambda: RetryPolicy(max_delay=float("inf")), "finite number of seconds"),
    "part of a retry": (lambda: RetryPolicy(max_retries=2.5), "whole number"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("what", INVALID)
def test_an_invalid_number_is_rejected(what: str) -> None:
    build, message = INVALID[what]
    with pytest.raises(TopologyError, match=message):
        build()


class Grouped(BasicBolt):
    def execute(self, tuple_: Any, collector: Any) -> None:
        """Nothing to do."""


def grouped(field: Any) -> None:
    class Emits(Says):
        streams = (declare({"field": field}),)

    builder = TopologyBuilder("t")
    builder.set_spout("s", partial(Emits, Messages()))
    builder.set_bolt("b", Grouped).fields_grouping("s", "field")
    builder.build()


def test_only_types_with_one_form_in_every_language_are_grouped_by() -> None:
    enum = {"type": "enum", "name": "e", "symbols": ["A"]}
    accepted: list[Any] = [str, int, bool, bytes, ["null", "string"], enum]
    for field in accepted:
        grouped(field)
    array, time = {"type": "array", "items": "string"}, {"type": "long", "logicalType": "timestamp-millis"}
    rejected: list[Any] = [float, ["null", "double"], array, time]
    for field in rejected:
        with pytest.raises(TopologyError, match="groups 's' by 'field'"):
            grouped(field)


class Batch(BatchBolt):
    def execute_batch(self, tuples: Any) -> None:
        """Nothing to do."""


class Windows(WindowedBolt):
    window = tumbling(count=2)

    def execute_window(self, window: Any) -> None:
        """Nothing to do."""


@pytest.mark.parametrize(("bolt", "message"), [(Batch, "called with batches only"), (Windows, "its window sets")])
def test_a_bolt_without_tick_tuples_is_given_no_interval(bolt: Any, message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        TopologyBuilder("t").set_bolt("b", bolt, tick_interval=1.0)


def test_the_default_tick_is_a_part_of_the_smallest_timeout() -> None:
    for timeout, tick_ms in ((10.5, 955), (30, 1_000), (0.4, 400)):
        builder = TopologyBuilder("t", message_timeout=timeout)
        builder.set_spout("s", partial(Says, Messages()))
        builder.set_spout("slow", partial(Says, Messages()), message_timeout=100)
        builder.set_bolt("b", partial(Does, Executed(ack))).shuffle_grouping("s").shuffle_grouping("slow")
        assert builder.build().manifest.tick_ms == tick_ms
