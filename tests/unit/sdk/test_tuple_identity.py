"""`Tuple.identity`: a text that each replay of a tuple has, and no other tuple."""

from collections.abc import Sequence
from typing import Any

import pytest

from spout_sdk import BasicCollector, FailTupleError, KafkaSpout, RetryPolicy, TopologyBuilder, Tuple
from spout_sdk.groupings import CustomGrouping
from spout_sdk.state import StatefulBolt
from spout_sdk.testing import SimulatedCluster
from tests.components import Split, kinds

Identities = list[tuple[str, str | None]]


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


class Even(CustomGrouping):
    """To all tasks with even numbers."""

    def choose(self, values: Sequence[Any]) -> Sequence[int]:
        return range(0, self.tasks, 2)


PASS = kinds(lambda values, _: [(values, "default")], *Split.streams)


@pytest.mark.parametrize("first", [PASS.basic, PASS.columns])
@pytest.mark.parametrize(("custom", "copies"), [(None, 3), (Even, 2)])
def test_copies_for_several_tasks_make_tuples_with_identities_of_their_own(
    first: Any, custom: Any, copies: int
) -> None:
    builder = TopologyBuilder("copies")
    builder.set_spout("lines", KafkaSpout("text", retry=RetryPolicy(delay_period=0.1)))
    builder.set_bolt("first", first).shuffle_grouping("lines")
    rules = builder.set_bolt("rules", PASS.basic, tasks=3)
    rules.custom_grouping("first", custom) if custom else rules.all_grouping("first")
    builder.set_bolt("seen", Seen).fields_grouping("rules", "word")
    with SimulatedCluster(builder.build(), topics={"text": 1}) as cluster:
        cluster.produce("text", "a")
        cluster.advance(5)
        assert cluster.state("seen") == {"a": copies}
        seen = cluster.bolt("seen").seen
        assert len({identity for _, identity in seen}) == copies < len(seen)
