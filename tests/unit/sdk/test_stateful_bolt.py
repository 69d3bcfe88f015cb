"""Bolts with a state in a simulated cluster: each message changes the state once, whatever fails."""

import random
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

from kafka_clients.errors import BrokerUnreachableError, TopicsError
from spout_sdk import BasicBolt, BasicCollector, FailTupleError, RetryTupleError, Tuple
from spout_sdk.state import DELETE, StateCollector, StatefulBolt, keyed_state, task_state
from spout_sdk.state.applied import APPLIED_PREFIX
from spout_sdk.state.restore import Restorer
from spout_sdk.state.task_state import TaskState
from spout_sdk.testing import SimulatedCluster, SimulationError
from tests.packs import tuples_in
from tests.unit.sdk.state_rig import (
    COUNTS,
    TEXT,
    Balance,
    Count,
    Split,
    accounts,
    counted,
    paid,
    words,
)
from tuple_tree.manifest import Guarantee
from tuple_tree.state_records import is_system


class Publish(Count):
    """Writes its counts to a topic, too."""

    def emit(self, key: str, value: int, tuple_: Tuple, collector: StateCollector) -> None:
        super().emit(key, value, tuple_, collector)
        collector.write("counts", b"%d" % value, key=key.encode())


def latest(counts: Iterable[tuple[str, int]]) -> Counter[str]:
    """The last counts, which never go back."""
    last: Counter[str] = Counter()
    for word, count in counts:
        assert count >= last[word]
        last[word] = count
    return last


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.exhaustive) for seed in range(1, 60))])
def test_counts_are_exact_after_failures_timeouts_and_kills(
    guarantee: Guarantee, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the state, in a topic, and with exactly_once in the inbox of the next bolt."""
    chance = random.Random(seed)
    monkeypatch.setattr(Split, "chance", random.Random(seed + 1))
    with SimulatedCluster(words(guarantee, Publish), seed=seed, topics={"counts": 2}, step=0.5) as cluster:
        lines: list[str] = []
        for _ in range(15):
            for line in chance.choices(TEXT, k=4):
                lines.append(line)
                cluster.produce("text", line)
            trouble(cluster, chance)
        monkeypatch.setattr(Split, "chance", None)
        cluster.advance(70)
        assert cluster.pending("lines") == []
        assert cluster.state("count") == counted(lines)
        written = [((each.key_ or b"").decode(), int(each.value_ or b"")) for each in cluster.records("counts")]
        assert latest(written) == counted(lines)
        if guarantee == "exactly_once":
            latest(each.values for each in tuples_in(cluster.records("words.tuples.sink"), COUNTS))
        changelog = {(record.partition_, record.key_): record.value_ for record in cluster.records("words.state.count")}
        kept = [key for (_, key), value in changelog.items() if value and key and APPLIED_PREFIX in key]
        assert kept == [], "identities of messages that are done"


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


def test_an_update_that_raises_or_does_not_fit_leaves_the_value_as_it_was() -> None:
    with paid(("ann", 1, 5), ("ann", 1, -9), ("ann", 1, 13), ("bob", 1, 2)) as cluster:
        assert cluster.state("balance") == {
            ("ann", 1): {"cents": 5, "notes": ["5"]},
            ("bob", 1): {"cents": 2, "notes": ["2"]},
        }
        (_, few), (_, unfit) = cluster.failed("payments")
        assert few.message == "too little"
        assert "StateError: the new value of key 'ann\\x1f1' does not fit the state: " in unfit.message
        assert "field 'cents' of the state is declared as long, and 'thirteen' (str) does not fit" in unfit.message


@pytest.mark.parametrize("state", [int, {"cents": int, "why": ["null", "string"]}])
def test_a_missing_return_fails_the_tuple_and_deletes_nothing(state: Any) -> None:
    class Forgets(StatefulBolt):
        def update(self, value: Any, tuple_: Tuple) -> Any:
            return value if tuple_["cents"] else None

    Forgets.state = state
    with paid(("ann", 1, 5), ("ann", 1, 0), bolt=Forgets) as cluster:
        assert cluster.state("balance").keys() == {("ann", 1)}
        ((_, failure),) = cluster.failed("payments")
        assert "update() of bolt 'balance' returned None, and its state may not be null" in failure.message
        assert "`return DELETE`" in failure.message


def test_none_deletes_the_key_of_a_state_that_may_be_null() -> None:
    class Last(StatefulBolt):
        state = ["null", "long"]

        def update(self, _value: Any, tuple_: Tuple) -> Any:
            return {0: None, 1: DELETE}.get(tuple_["cents"], tuple_["cents"])

    with paid(*((owner, 1, 7) for owner in "abc"), ("b", 1, 0), ("c", 1, 1), bolt=Last) as cluster:
        assert (cluster.state("balance"), cluster.failed("payments")) == ({("a", 1): 7}, [])


def test_a_value_is_deleted_by_name_and_begins_anew() -> None:
    with paid(("ann", 1, 5), ("ann", 1, 0)) as cluster:
        assert cluster.state("balance") == {}
        assert cluster.emitted("balance") == [("ann", 1, 5), ("ann", 1, -1)]
        cluster.feed("payments", ("ann", 1, 4))
        cluster.run_until_idle()
        assert cluster.state("balance") == {("ann", 1): {"cents": 4, "notes": ["4"]}}


def test_a_state_is_set_and_restored_in_a_test() -> None:
    with SimulatedCluster(accounts(), sources={"payments": []}) as cluster:
        cluster.set_state("balance", {("ann", 1): {"cents": 40, "notes": []}, ("bob", 2): {"cents": 1, "notes": []}})
        cluster.feed("payments", ("ann", 1, 2))
        cluster.run_until_idle()
        cluster.set_state("balance", {("bob", 2): None})
        assert cluster.state("balance") == {("ann", 1): {"cents": 42, "notes": ["2"]}}
        with pytest.raises(SimulationError, match="'payments' has no state"):
            cluster.state("payments")


class Largest(StatefulBolt):
    state = keyed_state(int, expire_after=60)

    def update(self, value: int, tuple_: Tuple) -> int:
        return max(value, int(tuple_["cents"]))


def test_a_key_expires_after_its_last_change_also_after_a_kill() -> None:
    with paid(("ann", 1, 5), bolt=Largest) as cluster:
        cluster.advance(40)
        cluster.feed("payments", ("ann", 1, 4))
        cluster.feed("payments", ("bob", 1, 1))
        cluster.advance(15)
        for task in range(2):
            cluster.kill("balance", task)
        assert cluster.state("balance") == {("ann", 1): 5, ("bob", 1): 1}
        cluster.advance(10)
        assert cluster.state("balance") == {("bob", 1): 1}, "the update of ann's value has not changed it"
        cluster.advance(60)
        assert cluster.state("balance") == {}


def test_with_at_most_once_a_state_changes_once_for_each_tuple() -> None:
    with SimulatedCluster(words("at_most_once")) as cluster:
        for line in TEXT:
            cluster.produce("text", line)
        cluster.run_until_idle()
        cluster.kill("count")
        cluster.run_until_idle()
        assert cluster.state("count") == counted(TEXT)


@pytest.mark.parametrize(
    ("owner", "size", "message"),
    [("ann", 1_000_000, "has 1,000,0"), ("ann" * 60_000, 800_000, "and the key 180,002"), ("an\x1fn", 1, "0x1f")],
)
def test_a_value_or_a_key_that_cannot_be_stored_fails_its_tuple(owner: str, size: int, message: str) -> None:
    class Hoard(Balance):
        def update(self, value: dict[str, Any], tuple_: Tuple) -> dict[str, Any]:
            return {"cents": 0, "notes": ["x" * size]}

    with paid((owner, 1, 5), bolt=Hoard) as cluster:
        ((_, failure),) = cluster.failed("payments")
        assert message in failure.message
        assert cluster.state("balance") == {}


@pytest.mark.parametrize("declared", [{"cents": int}, {"cents": int, "notes": {"type": "array", "items": "string"}}])
def test_what_emit_does_with_a_value_does_not_change_the_state(declared: Any) -> None:
    class Careless(StatefulBolt):
        state = declared

        def update(self, value: dict[str, Any], tuple_: Tuple) -> dict[str, Any]:
            value["cents"] += tuple_["cents"]
            return value

        def emit(self, key: Any, value: dict[str, Any], tuple_: Tuple, collector: BasicCollector) -> None:
            value["cents"] = 1_000
            value.get("notes", []).append("changed")
            if tuple_["cents"] == 7 and self.fails:
                self.fails = False
                raise RetryTupleError("once")

        fails = True

    with paid(("ann", 1, 5), ("ann", 1, 7), ("ann", 1, 5), bolt=Careless) as cluster:
        cluster.advance(5)
        ((key, value),) = cluster.state("balance").items()
        assert (key, value["cents"], value.get("notes", [])) == (("ann", 1), 17, [])


def test_many_keys_expire_in_several_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    deleted: list[int] = []
    changes = TaskState.changes

    def counted(self: TaskState) -> Any:
        made = [*changes(self)]
        deleted.append(sum(value is None and not is_system(key) for key, value in made))
        return iter(made)

    monkeypatch.setattr(TaskState, "changes", counted)
    monkeypatch.setattr(task_state, "MOST_EXPIRED", 2)
    with paid(*((f"owner {number}", 1, 5) for number in range(12)), bolt=Largest) as cluster:
        assert len(cluster.state("balance")) == 12
        cluster.advance(62)
        assert cluster.state("balance") == {}
        assert (sum(deleted), max(deleted)) == (12, 2)


def test_a_changelog_without_a_leader_does_not_end_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def unanswered(self: Restorer, tasks: Any) -> Any:
        asked.extend(tasks)
        raise BrokerUnreachableError("the brokers do not answer")

    with paid(("ann", 1, 5)) as cluster:
        monkeypatch.setattr(Restorer, "ends", unanswered)
        cluster.advance(11)
        cluster.feed("payments", ("ann", 1, 4))
        cluster.run_until_idle()
        assert asked
        assert cluster.state("balance")[("ann", 1)]["cents"] == 9


def test_a_source_topic_that_is_created_again_after_the_restore_ends_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Restorer, "_source_ids", lambda _: {"lines": {"text": "an-earlier-id"}})
    with SimulatedCluster(words()) as cluster:
        cluster.produce("text", "a")
        with pytest.raises(TopicsError, match="its id was an-earlier-id"):
            cluster.advance(5)
