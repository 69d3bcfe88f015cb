"""The time for which a process with transactions holds an input back."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from spout_sdk import HeldBackError
from spout_sdk.delivery.delivery_guarantees import ExactlyOnce
from spout_sdk.emitting.environment import TaskEnvironment
from spout_sdk.emitting.input_offsets import InputOffsets
from spout_sdk.statistics.stats import Counters
from tests.unit.sdk.memory import ManualClock, MemorySink, open_pack


class Transactions:
    """Transactions of one task without a commit."""

    timeout = 8.0

    def __init__(self) -> None:
        self.emitted = 0

    @property
    def is_used(self) -> bool:
        return self.emitted > 0

    def poll(self) -> None: ...


def assigned(guarantee: ExactlyOnce, partition: int, emitted: Callable[[], int]) -> InputOffsets:
    inputs = InputOffsets(emitted)
    task: Any = SimpleNamespace(inputs=inputs)
    guarantee.on_assigned({partition: task})
    return inputs


@pytest.mark.parametrize("has_lost_a_task", [False, True])
def test_an_input_is_held_back_for_at_most_half_of_the_timeout(has_lost_a_task: bool) -> None:
    transactions: Any = Transactions()
    environment = TaskEnvironment(MemorySink(), Counters(), ManualClock(), bytes)
    guarantee = ExactlyOnce(environment, transactions, "b")
    guarantee.attach(None, {})  # type: ignore[arg-type]  # its positions are read only for a commit
    if has_lost_a_task:
        # What waited in it does not count against the other one.
        inputs = assigned(guarantee, 0, lambda: 0)
        inputs.open(pack := open_pack(0))
        inputs.settle([pack])
        guarantee.on_tick(1.0)
        guarantee.on_lost([0])
        guarantee.on_idle(1.05)
    guarantee.on_tick(99.0)
    # A bolt has emitted while it holds an input.
    assigned(guarantee, 1, lambda: transactions.emitted).open(open_pack(0))
    transactions.emitted += 1
    guarantee.on_tick(100.0)
    guarantee.on_idle(103.9)
    with pytest.raises(HeldBackError):
        guarantee.on_idle(104.1)


def test_tuples_of_an_early_tick_are_fenced_by_the_group() -> None:
    """A transaction without offsets is not fenced: a process that has left the group could still commit it."""
    committed: list[Any] = []

    class Committing(Transactions):
        def commit(self, positions: Any, group: Any) -> None:
            committed.append((positions, group))

    class Reader:
        def starts(self, partitions: tuple[int, ...]) -> dict[int, int]:
            return dict.fromkeys(partitions, 17)

        place_in_group = "generation"

    transactions: Any = Committing()
    reader: Any = Reader()
    environment = TaskEnvironment(MemorySink(), Counters(), ManualClock(), bytes)
    guarantee = ExactlyOnce(environment, transactions, "b")
    guarantee.attach(reader, {})
    assigned(guarantee, 3, lambda: transactions.emitted)
    transactions.emitted += 1
    guarantee.on_tick(100.0)
    guarantee.on_idle(101.0)
    assert committed == [({3: 17}, "generation")]
