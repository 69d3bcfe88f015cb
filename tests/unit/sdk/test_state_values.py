"""Values of a state: what users do with them, and values that are too large."""

from typing import Any

import pytest

from spout_sdk import BasicCollector, RetryTupleError, StatefulBolt, Tuple
from tests.unit.sdk.test_stateful_bolt import Balance, paid


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
