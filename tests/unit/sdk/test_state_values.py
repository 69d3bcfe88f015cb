"""Values of a state: what users do with them, and values that are too large."""

from typing import Any

import pytest

from kafka_clients.errors import BrokerUnreachableError, TopicsError
from spout_sdk import BasicCollector, RetryTupleError, StatefulBolt, Tuple, keyed_state
from spout_sdk.state import task_state
from spout_sdk.state.restore import Restorer
from spout_sdk.state.task_state import TaskState
from spout_sdk.testing import SimulatedCluster
from tests.unit.sdk.state_rig import Balance, paid, words
from tuple_tree.state_records import is_system


def test_a_value_that_is_too_large_fails_its_tuple() -> None:
    class Hoard(Balance):
        def update(self, value: dict[str, Any], tuple_: Tuple) -> dict[str, Any]:
            return {"cents": 0, "notes": ["x" * 1_000_000]}

    with paid(("ann", 1, 5), bolt=Hoard) as cluster:
        ((_, failure),) = cluster.failed("payments")
        assert "has 1,000,0" in failure.message
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


def test_a_value_that_is_too_large_with_its_key_fails_its_tuple() -> None:
    class Wide(Balance):
        def update(self, value: dict[str, Any], tuple_: Tuple) -> dict[str, Any]:
            return {"cents": 0, "notes": ["x" * 800_000]}

    with paid(("ann" * 60_000, 1, 5), bolt=Wide) as cluster:
        ((_, failure),) = cluster.failed("payments")
        assert "and the key 180,002" in failure.message
        assert cluster.state("balance") == {}


def test_many_keys_expire_in_several_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    class Seen(StatefulBolt):
        state = keyed_state(int, expire_after=60)

        def update(self, value: int, tuple_: Tuple) -> int:
            return value + 1

    deleted: list[int] = []
    changes = TaskState.changes

    def counted(self: TaskState) -> Any:
        made = [*changes(self)]
        deleted.append(sum(value is None and not is_system(key) for key, value in made))
        return iter(made)

    monkeypatch.setattr(TaskState, "changes", counted)
    monkeypatch.setattr(task_state, "MOST_EXPIRED", 2)
    with paid(*((f"owner {number}", 1, 5) for number in range(12)), bolt=Seen) as cluster:
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
