"""`Tuple.identity`: a text that each replay of a tuple has, and no other tuple."""

from typing import Any

from spout_sdk import (
    BasicBolt,
    BasicCollector,
    FailTupleError,
    KafkaSpout,
    RetryPolicy,
    StatefulBolt,
    TopologyBuilder,
    Tuple,
    declare,
)
from spout_sdk.testing import SimulatedCluster

Identities = list[tuple[str, str | None]]


class Split(BasicBolt):
    streams = (declare({"word": str}),)

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        for word in tuple_["value"].split():
            collector.emit((word,))


class Seen(StatefulBolt):
    """Fails the second execution of its task."""

    state = int

    def prepare(self, context: Any) -> None:
        self.seen: Identities = []

    def update(self, count: int, tuple_: Tuple) -> int:
        return count + 1

    def emit(self, key: str, count: int, tuple_: Tuple, collector: BasicCollector) -> None:
        self.seen.append((key, tuple_.identity))
        if len(self.seen) == 2:
            raise FailTupleError("once")


def identities(spout: Any, **options: Any) -> Identities:
    builder = TopologyBuilder("words")
    builder.set_spout("lines", spout)
    builder.set_bolt("split", Split).shuffle_grouping("lines")
    builder.set_bolt("seen", Seen).fields_grouping("split", "word")
    with SimulatedCluster(builder.build(), **options) as cluster:
        if "sources" not in options:
            cluster.produce("text", "a b a")
            cluster.produce("text", "a b a")
        cluster.advance(5)
        found: Identities = cluster.bolt("seen").seen
        return found


def test_a_replay_has_the_identity_of_the_first_attempt_and_no_other_tuple_has_it() -> None:
    seen = identities(KafkaSpout("text", retry=RetryPolicy(delay_period=0.1)), topics={"text": 1})
    assert len(seen) == 6 + 3
    assert len(set(seen)) == 6
    assert len({identity for _, identity in seen}) == 6
    assert {seen.index(again) for again in seen[6:]} == {0, 1, 2}


def test_tuples_of_a_source_without_positions_have_none() -> None:
    seen = identities(KafkaSpout("text"), sources={"lines": [("a b",)]})
    assert {identity for _, identity in seen} == {None}
