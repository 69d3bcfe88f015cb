"""Bolts with a state in a simulated cluster: each message changes the state once, whatever fails."""

import random
from collections import Counter
from typing import Any

import pytest

from spout_sdk import (
    BasicBolt,
    BasicCollector,
    FailTupleError,
    StateArrowCollector,
    StateCollector,
    StatefulBolt,
    Tuple,
    keyed_state,
)
from spout_sdk.state.applied import APPLIED_PREFIX
from spout_sdk.testing import SimulatedCluster, SimulationError
from tests.packs import tuples_in
from tests.unit.sdk.state_rig import (
    COUNTS,
    TEXT,
    ArrowCount,
    Count,
    Split,
    accounts,
    counted,
    paid,
    words,
)
from tuple_tree.manifest import Guarantee


def test_each_message_changes_the_state_once() -> None:
    with SimulatedCluster(words()) as cluster:
        for line in TEXT:
            cluster.produce("text", line)
        cluster.run_until_idle()
        assert cluster.state("count") == counted(TEXT)
        assert max(value for word, value in cluster.emitted("count") if word == "moon") == 5


SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.exhaustive) for seed in range(1, 60))]


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", [Count, ArrowCount])
def test_counts_are_exact_after_failures_timeouts_and_kills(kind: Any, guarantee: Guarantee, seed: int) -> None:
    chance = random.Random(seed)
    Split.chance = random.Random(seed + 1)
    try:
        with SimulatedCluster(words(guarantee, kind), seed=seed) as cluster:
            lines: list[str] = []
            for _ in range(25):
                for line in chance.choices(TEXT, k=4):
                    lines.append(line)
                    cluster.produce("text", line)
                trouble(cluster, chance)
            Split.chance = None
            cluster.advance(70)
            assert cluster.pending("lines") == []
            counts = cluster.state("count")
            assert {word: count if kind is Count else count["count"] for word, count in counts.items()} == counted(
                lines
            )
            if guarantee == "exactly_once":
                latest: Counter[str] = Counter()
                for word, count in sunk(cluster):
                    assert count >= latest[word]
                    latest[word] = count
    finally:
        Split.chance = None


def trouble(cluster: SimulatedCluster, chance: random.Random) -> None:
    match chance.randrange(6):
        case 0:
            cluster.kill(*chance.choice([("split", 0), ("split", 1), ("lines", 0), ("sink", 0)]))
        case 1:
            cluster.kill("count", chance.randrange(2))
        case 2:
            cluster.pause("sink")
            cluster.advance(35)  # trees time out that have changed the state
            cluster.resume("sink")
        case 3:
            cluster.kill_acker()
        case 4:
            cluster.restart("count", chance.randrange(2))
        case 5:
            executed = len(cluster.executed("count"))
            cluster.run_until(lambda: len(cluster.executed("count")) > executed + 3)
            cluster.kill("count", chance.randrange(2))


def sunk(cluster: SimulatedCluster) -> list[Any]:
    """The tuples in the inbox of the sink, in order."""
    return [each.values for each in tuples_in(cluster.records("words.tuples.sink"), COUNTS)]


def test_a_replayed_tuple_emits_the_value_as_it_is() -> None:
    class Refuse(BasicBolt):
        refused = 0

        def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
            if tuple_["word"] == "a" and not Refuse.refused:
                Refuse.refused += 1
                raise FailTupleError("once")

    topology = words(sink=Refuse)
    with SimulatedCluster(topology) as cluster:
        cluster.produce("text", "a b")
        cluster.run_until_idle()
        assert cluster.state("count") == {"a": 1, "b": 1}
        assert sorted(cluster.emitted("count")) == [("a", 1), ("a", 1), ("b", 1), ("b", 1)]
        assert cluster.stats("count").counters == {"replayed tuples": 2}


def test_identities_are_deleted_when_their_messages_are_done_though_no_tuple_comes() -> None:
    with SimulatedCluster(words()) as cluster:
        for line in TEXT:
            cluster.produce("text", line)
        cluster.advance(5)
        latest = {(record.partition_, record.key_): record.value_ for record in cluster.records("words.state.count")}
        assert {key for (_, key), value in latest.items() if value and key and APPLIED_PREFIX in key} == set()


class Publish(Count):
    def emit(self, key: str, value: int, tuple_: Tuple, collector: StateCollector) -> None:
        collector.write("counts", b"%d" % value, key=key.encode())


class ArrowPublish(ArrowCount):
    def emit_batch(self, values: Any, rows: Any, batch: Any, collector: StateArrowCollector) -> None:
        words = batch["word"].to_pylist()
        counts = dict(zip(words, (values["count"].to_pylist()[row] for row in rows.tolist()), strict=True))
        collector.write("counts", [b"%d" % count for count in counts.values()], keys=[word.encode() for word in counts])


@pytest.mark.parametrize("kind", [Publish, ArrowPublish])
@pytest.mark.parametrize("seed", SEEDS)
def test_results_in_a_topic_are_part_of_the_transaction_and_never_go_back(kind: Any, seed: int) -> None:
    chance = random.Random(seed)
    with SimulatedCluster(words(count=kind), seed=seed, topics={"counts": 2}) as cluster:
        lines = chance.choices(TEXT, k=80)
        for begin in range(0, 80, 8):
            for line in lines[begin : begin + 8]:
                cluster.produce("text", line)
            trouble(cluster, chance)
        cluster.advance(70)
        latest: Counter[str] = Counter()
        for record in cluster.records("counts"):
            word, count = (record.key_ or b"").decode(), int(record.value_ or b"")
            assert count >= latest[word]
            latest[word] = count
        assert latest == counted(lines)


def test_an_update_that_raises_or_does_not_fit_leaves_the_value_as_it_was() -> None:
    with paid(("ann", 1, 5), ("ann", 1, -9), ("ann", 1, 13), ("bob", 1, 2)) as cluster:
        assert cluster.state("balance") == {
            ("ann", 1): {"cents": 5, "notes": ["5"]},
            ("bob", 1): {"cents": 2, "notes": ["2"]},
        }
        (_, few), (_, unfit) = cluster.failed("payments")
        assert few.message == "too little"
        assert "StateError: the new value of key 'ann\\x1f1' is not of the state: " in unfit.message
        assert "field 'cents' of the state is declared as long, and 'thirteen' (str) does not fit" in unfit.message


def test_a_value_is_deleted_by_none_and_begins_anew() -> None:
    with paid(("ann", 1, 5), ("ann", 1, 0)) as cluster:
        assert cluster.state("balance") == {}
        assert cluster.emitted("balance") == [("ann", 1, 5), ("ann", 1, -1)]
        cluster.feed("payments", ("ann", 1, 4))
        cluster.run_until_idle()
        assert cluster.state("balance") == {("ann", 1): {"cents": 4, "notes": ["4"]}}


def test_a_key_that_cannot_be_stored_fails_its_tuple() -> None:
    with paid(("an\x1fn", 1, 5)) as cluster:
        ((_, failure),) = cluster.failed("payments")
        assert "0x1f" in failure.message


def test_a_state_is_set_and_restored_in_a_test() -> None:
    with SimulatedCluster(accounts(), sources={"payments": []}) as cluster:
        cluster.set_state("balance", {("ann", 1): {"cents": 40, "notes": []}, ("bob", 2): {"cents": 1, "notes": []}})
        cluster.feed("payments", ("ann", 1, 2))
        cluster.run_until_idle()
        cluster.set_state("balance", {("bob", 2): None})
        assert cluster.state("balance") == {("ann", 1): {"cents": 42, "notes": ["2"]}}
        with pytest.raises(SimulationError, match="'payments' has no state"):
            cluster.state("payments")


def test_a_key_expires_after_its_last_change_also_after_a_kill() -> None:
    class Seen(StatefulBolt):
        state = keyed_state(int, expire_after=60)

        def update(self, value: int, tuple_: Tuple) -> int:
            return value + 1

    with paid(("ann", 1, 5), bolt=Seen) as cluster:
        cluster.advance(40)
        cluster.feed("payments", ("bob", 1, 1))
        cluster.advance(15)
        for task in range(2):
            cluster.kill("balance", task)
        cluster.advance(10)
        assert cluster.state("balance") == {("bob", 1): 1}
        cluster.advance(60)
        assert cluster.state("balance") == {}


def test_an_update_that_returns_the_same_value_does_not_defer_the_expiry() -> None:
    class First(StatefulBolt):
        state = keyed_state(int, expire_after=60)

        def update(self, value: int, tuple_: Tuple) -> int:
            return value or tuple_["cents"]

    with paid(("ann", 1, 5), bolt=First) as cluster:
        cluster.advance(40)
        cluster.feed("payments", ("ann", 1, 7))
        cluster.advance(15)
        assert cluster.state("balance") == {("ann", 1): 5}
        cluster.advance(10)
        assert cluster.state("balance") == {}


def test_with_at_most_once_a_state_changes_once_for_each_tuple() -> None:
    with SimulatedCluster(words("at_most_once")) as cluster:
        for line in TEXT:
            cluster.produce("text", line)
        cluster.run_until_idle()
        cluster.kill("count")
        cluster.run_until_idle()
        assert cluster.state("count") == counted(TEXT)
