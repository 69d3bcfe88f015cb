"""An `AsyncBolt` sends nothing for an input unless everything that its coroutine has emitted and answered fits."""

from collections.abc import Sequence
from typing import Any, ClassVar

import pytest

from spout_sdk import AsyncBolt, AsyncCollector, KafkaSpout, Topology, TopologyBuilder, Tuple, declare
from spout_sdk.groupings import CustomGrouping
from spout_sdk.testing import SimulatedCluster
from tests.components import Sink
from tuple_tree.manifest import Guarantee


class Chooses(CustomGrouping):
    def choose(self, values: Sequence[Any]) -> Sequence[int]:
        if values[0] == "nowhere":
            raise LookupError("there is no such task")
        return (0,)


class Effects(AsyncBolt):
    """Emits two tuples and an answer, and then what does not fit, until that is repaired."""

    answers = True
    streams = (
        declare({"word": str}),
        declare({"key": str, "n": int}, name="keyed", codec="json"),
        declare({"word": str}, name="chosen"),
    )
    misfit: ClassVar[str] = ""

    async def execute_async(self, tuple_: Tuple, collector: AsyncCollector) -> None:
        word = tuple_["value"]
        collector.emit((word,))
        for number in range(3):
            collector.emit((f"{word} {number}", number), stream="keyed")
        collector.emit((word,), stream="chosen")
        collector.answer(word)
        match self.misfit:
            case "values":
                collector.emit((1, 2))
            case "type":
                collector.emit(("a", {1}), stream="keyed")
            case "stream":
                collector.emit((word,), stream="none")
            case "grouping":
                collector.emit(("nowhere",), stream="chosen")
            case "answer":
                collector.answer({1, 2})
            case "number":
                collector.answer(float("nan"))


def topology(guarantee: Guarantee) -> Topology:
    builder = TopologyBuilder("t", guarantee=guarantee)
    builder.set_spout("words", KafkaSpout("text"))
    builder.set_bolt("effects", Effects, on_exception="retry").shuffle_grouping("words")
    builder.set_bolt("last", Sink).shuffle_grouping("effects")
    builder.set_bolt("keyed", Sink).fields_grouping("effects", "key", "keyed")
    builder.set_bolt("chosen", Sink, tasks=2).custom_grouping("effects", Chooses, "chosen")
    return builder.build()


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
@pytest.mark.parametrize("misfit", ["values", "type", "stream", "grouping", "answer", "number"])
def test_nothing_is_sent_for_an_input_that_stays_open(
    misfit: str, guarantee: Guarantee, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Effects, "misfit", misfit)
    with SimulatedCluster(topology(guarantee)) as cluster:
        cluster.produce("text", "a")
        for _ in range(3):
            cluster.advance(2)
            cluster.restart("effects")
        assert not cluster.executed("last")
        monkeypatch.setattr(Effects, "misfit", "")
        cluster.advance(2)
        assert cluster.executed("last") == [("a",)]
        assert cluster.executed("keyed") == [(f"a {number}", number) for number in range(3)]
        keys = [record.key() for record in cluster.records("t.tuples.keyed")]
        assert keys == [b"a 0", b"a 1", b"a 2"]
        assert (found := cluster.message_outcome("text", 0)) is not None
        assert (found.outcome, found.answer, found.attempts) == ("acked", "a", 1)
