"""What an emit without anchors, or after the ack, does."""

import logging
from functools import partial
from typing import Any

import pytest

from spout_sdk import OutputCollector, TopologyBuilder, Tuple, TupleAlreadyDoneError
from spout_sdk.testing import SimulatedCluster
from tests.contract.components import Does, Execute, Executed, Messages, Says, ack, pass_on


def run(execute: Execute, *words: str) -> tuple[Messages, Executed]:
    messages, first, second = Messages(), Executed(execute), Executed(ack)
    builder = TopologyBuilder("emits")
    builder.set_spout("says", partial(Says, messages))
    builder.set_bolt("one", partial(Does, first)).shuffle_grouping("says")
    builder.set_bolt("two", partial(Does, second)).shuffle_grouping("one")
    for word in words:
        messages.say(word)
    with SimulatedCluster(builder.build()) as cluster:
        cluster.advance(1)
    return messages, second


def test_an_emit_after_the_ack_fails_the_tree() -> None:
    raised: list[Exception] = []

    def late(tuple_: Tuple, collector: OutputCollector) -> None:
        collector.ack(tuple_)
        try:
            collector.emit(("child", 1), anchors=tuple_)
        except TupleAlreadyDoneError as error:
            raised.append(error)

    messages, second = run(late, "a")
    assert len(raised) == 1
    assert messages.failed_ids == ["a"]
    assert "acked or failed before" in messages.failed[0][2].message
    assert not messages.acked
    assert not second.words


@pytest.mark.parametrize("anchors", [None, ()])
def test_an_emit_without_anchors_warns_once_unless_that_is_said(anchors: Any, caplog: pytest.LogCaptureFixture) -> None:
    def forget(tuple_: Tuple, collector: OutputCollector) -> None:
        collector.emit(tuple_.values, **({} if anchors is None else {"anchors": anchors}))
        collector.ack(tuple_)

    with caplog.at_level(logging.WARNING, "spout_sdk"):
        messages, second = run(forget, "a", "b")
    assert (messages.acked_ids, second.words) == (["a", "b"], ["a", "b"])
    assert [record.getMessage().split(":")[0] for record in caplog.records] == (
        ["one/0 emits without anchors"] if anchors is None else []
    )


def test_options_of_an_emit_are_named() -> None:
    def misread(tuple_: Tuple, collector: Any) -> None:
        with pytest.raises(TypeError, match="positional argument"):
            collector.emit(tuple_, ("values", 1))
        with pytest.raises(TypeError, match="positional argument"):
            collector.emit(("values", 1), "stream")
        pass_on(tuple_, collector)

    messages, second = run(misread, "a")
    assert (messages.acked_ids, second.words) == (["a"], ["a"])
