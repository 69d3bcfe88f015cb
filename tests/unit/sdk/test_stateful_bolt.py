"""Bolts with a state in a simulated cluster: each message changes the state once, whatever fails."""

import random
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spout_sdk import (
    BasicBolt,
    BasicCollector,
    CustomGrouping,
    FailTupleError,
    KafkaSpout,
    Record,
    RetryPolicy,
    Spout,
    StateArrowCollector,
    StateCollector,
    StatefulArrowBolt,
    StatefulBolt,
    Topology,
    TopologyBuilder,
    TopologyError,
    Tuple,
    declare,
    keyed_state,
)
from spout_sdk.state.applied import APPLIED_PREFIX
from spout_sdk.testing import SimulatedCluster, SimulationError
from tests.packs import tuples_in
from tuple_tree.manifest import Guarantee

TEXT = ["the tide the moon", "a moon", "tide a tide", "the", "moon moon moon the"]


def translate(record: Record) -> tuple[str]:
    return ((record.value() or b"").decode(),)


class Split(BasicBolt):
    """Fails some of its calls, by a random generator that tests set."""

    streams = (declare({"word": str}),)
    chance: random.Random | None = None

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        for word in tuple_["line"].split():
            collector.emit((word,))
            if self.chance is not None and self.chance.random() < 0.03:
                raise ValueError("bad luck")


class Count(StatefulBolt):
    state = int
    streams = (declare({"word": str, "count": int}),)

    def update(self, value: int, tuple_: Tuple) -> int:
        return value + 1

    def emit(self, key: str, value: int, tuple_: Tuple, collector: StateCollector) -> None:
        collector.emit((key, value))


class ArrowCount(StatefulArrowBolt):
    state = {"count": int}
    streams = Count.streams

    def update_batch(self, values: Any, rows: Any, batch: Any) -> Any:
        return {"count": values["count"].to_numpy() + np.bincount(rows, minlength=len(values))}

    def emit_batch(self, values: Any, rows: Any, batch: Any, collector: StateArrowCollector) -> None:
        keys, last = np.unique(rows[::-1], return_index=True)
        at = len(rows) - 1 - last
        collector.emit(
            {"word": batch["word"].take(pa.array(at)), "count": values["count"].take(pa.array(keys))}, anchors=at
        )


class Sink(BasicBolt):
    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        """Acks everything."""


COUNTS = Count.streams[0]


def words(guarantee: Guarantee = "at_least_once", count: Any = Count, sink: Any = Sink, **options: Any) -> Topology:
    builder = TopologyBuilder("words", guarantee=guarantee, message_timeout=30.0, ack_partitions=2)
    retry = RetryPolicy(delay_period=0.0, max_delay=0.0)
    builder.set_spout("lines", KafkaSpout("text", streams=[declare({"line": str})], translate=translate, retry=retry))
    builder.set_bolt("split", Split, tasks=2, **options).shuffle_grouping("lines")
    builder.set_bolt("count", count, tasks=2).fields_grouping("split", "word")
    builder.set_bolt("sink", sink).shuffle_grouping("count")
    return builder.build()


def counted(lines: list[str]) -> Counter[str]:
    return Counter(word for line in lines for word in line.split())


def test_each_message_changes_the_state_once() -> None:
    with SimulatedCluster(words()) as cluster:
        for line in TEXT:
            cluster.produce("text", line)
        cluster.run_until_idle()
        assert cluster.state("count") == counted(TEXT)
        assert max(value for word, value in cluster.emitted("count") if word == "moon") == 5


SEEDS = [*range(2), *(pytest.param(seed, marks=pytest.mark.exhaustive) for seed in range(2, 60))]


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
    """What is in the inbox of the sink, in order."""
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


class Balance(StatefulBolt):
    """Refuses to go below zero; an amount of 0 deletes the account."""

    state = {"cents": int, "notes": {"type": "array", "items": "string"}}
    streams = (declare({"owner": str, "number": int, "cents": int}),)

    def update(self, value: dict[str, Any], tuple_: Tuple) -> dict[str, Any] | None:
        value["cents"] += tuple_["cents"]
        value["notes"].append(str(tuple_["cents"]))
        if tuple_["cents"] == 13:
            return {**value, "cents": "thirteen"}
        if value["cents"] < 0:
            raise FailTupleError("too little")
        return value if tuple_["cents"] else None

    def emit(self, key: tuple[str, int], value: Any, tuple_: Tuple, collector: BasicCollector) -> None:
        collector.emit((*key, -1 if value is None else value["cents"]))


class Payments(Spout):
    streams = (declare({"owner": str, "number": int, "cents": int}),)

    def next_tuple(self) -> None:
        """Is mocked."""


def accounts(**options: Any) -> Topology:
    builder = TopologyBuilder("bank", ack_partitions=1)
    builder.set_spout("payments", Payments)
    builder.set_bolt("balance", options.pop("bolt", Balance), tasks=2, **options).fields_grouping(
        "payments", ("owner", "number")
    )
    return builder.build()


def paid(*payments: tuple[str, int, int], **options: Any) -> SimulatedCluster:
    cluster = SimulatedCluster(accounts(**options), sources={"payments": payments})
    cluster.run_until_idle()
    return cluster


def test_an_update_that_raises_or_does_not_fit_leaves_the_value_as_it_was() -> None:
    with paid(("ann", 1, 5), ("ann", 1, -9), ("ann", 1, 13), ("bob", 1, 2)) as cluster:
        assert cluster.state("balance") == {
            ("ann", 1): {"cents": 5, "notes": ["5"]},
            ("bob", 1): {"cents": 2, "notes": ["2"]},
        }
        (_, few), (_, unfit) = cluster.failed("payments")
        assert few.message == "too little"
        assert "StateError: key 'ann\\x1f1'" in unfit.message
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


class First(CustomGrouping):
    def choose(self, values: Sequence[Any]) -> Sequence[int]:
        return (0,)


def behind(custom: Any = First, mode: Any = None) -> Topology:
    builder = TopologyBuilder("words")
    builder.set_spout("lines", KafkaSpout("text", streams=[declare({"line": str})], translate=translate, mode=mode))
    split = builder.set_bolt("split", Split, tasks=2)
    split.custom_grouping("lines", custom) if custom else split.shuffle_grouping("lines")
    builder.set_bolt("count", Count).fields_grouping("split", "word")
    return builder.build()


@pytest.mark.parametrize(
    ("topology", "expected"),
    [
        (words(), {"count": "each message once"}),
        (accounts(), {"balance": "replays are counted again, because spout 'payments' is no KafkaSpout"}),
        (words("at_most_once"), {"count": "each message once at most"}),
        (
            behind(None, "at_most_once"),
            {"count": "replays are counted again, because spout 'lines' has the mode at_most_once"},
        ),
        (
            behind(),
            {"count": "each message once; the custom grouping of 'split' must choose the same tasks for a replay"},
        ),
    ],
)
def test_the_builder_says_what_a_state_guarantees(topology: Topology, expected: dict[str, str]) -> None:
    ((bolt, words_),) = topology.state_guarantees.items()
    assert words_.startswith(expected[bolt])


class Untyped(StatefulBolt):
    def update(self, value: Any, tuple_: Tuple) -> Any:
        return value


class Binary(Untyped):
    state = {"picture": bytes}


class Odd(Untyped):
    state = {"at": complex}


@pytest.mark.parametrize(
    ("bolt", "group", "expected"),
    [
        (Balance, lambda each: each.shuffle_grouping("payments"), "use fields_grouping()"),
        (Untyped, lambda each: each.fields_grouping("payments", "owner"), "has no state: declare the fields"),
        (Odd, lambda each: each.fields_grouping("payments", "owner"), "complex, which is no Avro type"),
        (Binary, lambda each: each.fields_grouping("payments", "owner"), 'keyed_state({…}, codec="avro")'),
        (
            Balance,
            lambda each: each.fields_grouping("payments", "owner").fields_grouping("others", "number"),
            "its keys differ: owner: string of 'payments', and number: long of 'others'",
        ),
    ],
)
def test_the_builder_refuses_states_that_cannot_be_kept(bolt: Any, group: Any, expected: str) -> None:
    builder = TopologyBuilder("bank")
    builder.set_spout("payments", Payments)
    builder.set_spout("others", Payments)
    group(builder.set_bolt("balance", bolt))
    with pytest.raises(TopologyError, match=re.escape(expected)):
        builder.build()
