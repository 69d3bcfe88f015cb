"""How long a process that works in transactions holds an input back."""

from typing import Any

import pytest

from spout_sdk import HeldBackError
from spout_sdk.counters import Counters
from spout_sdk.records import TaskEnvironment
from spout_sdk.transactions import ExactlyOnceCommits
from tests.unit.sdk.memory import ManualClock, MemorySink


class Sends(MemorySink):
    sent = 0


class Transactions:
    """Transactions of one task that are never asked to commit."""

    timeout = 8.0

    def __init__(self) -> None:
        self.task = Sends()

    @property
    def is_used(self) -> bool:
        return self.task.sent > 0

    def for_task(self) -> Sends:
        return self.task

    def poll(self) -> None: ...


@pytest.mark.parametrize("has_lost_a_task", [False, True])
def test_an_input_is_held_back_for_at_most_half_of_the_timeout(has_lost_a_task: bool) -> None:
    transactions: Any = Transactions()
    environment = TaskEnvironment(MemorySink(), Counters(), ManualClock(), bytes)
    commits = ExactlyOnceCommits(environment, transactions, "b")
    commits.attach(None, {})  # type: ignore[arg-type]  # is asked for positions only when something is committed
    if has_lost_a_task:
        # What waited in it does not count against the other one.
        inputs = commits.environment(0).inputs()
        inputs.start(0)
        inputs.settle(0)
        commits.tick(1.0)
        commits.dropped([0])
        commits.dry(1.05)
    commits.tick(99.0)
    # A bolt has emitted while it holds an input.
    commits.environment(1).inputs().start(0)
    transactions.task.sent += 1
    commits.tick(100.0)
    commits.dry(103.9)
    with pytest.raises(HeldBackError):
        commits.dry(104.1)
