"""When a process that works in transactions commits."""

from typing import Any

import pytest

from spout_sdk import HeldBackError
from spout_sdk.counters import Counters
from spout_sdk.records import TaskEnvironment
from spout_sdk.transactions import ExactlyOnceCommits
from tests.unit.sdk.memory import ManualClock, MemorySink


class Sends(MemorySink):
    """A task's sink, which counts."""

    sent = 0


class Transactions:
    """Transactions that are never asked to commit."""

    timeout = 8.0

    def __init__(self) -> None:
        self.task = Sends()

    @property
    def is_used(self) -> bool:
        return self.task.sent > 0

    def for_task(self) -> Sends:
        return self.task

    def poll(self) -> None: ...


def held_back(commits: ExactlyOnceCommits, transactions: Transactions, task: int) -> None:
    """A bolt has emitted while it holds an input."""
    commits.environment(task).inputs().start(0)
    transactions.task.sent += 1


def rig() -> tuple[ExactlyOnceCommits, Transactions]:
    transactions: Any = Transactions()
    environment = TaskEnvironment(MemorySink(), Counters(), ManualClock(), bytes)
    commits = ExactlyOnceCommits(environment, transactions, "b")
    commits.attach(None, {})  # type: ignore[arg-type]  # is asked for positions only when something is committed
    return commits, transactions


def test_an_input_is_not_held_back_for_longer_than_half_of_the_timeout() -> None:
    commits, transactions = rig()
    commits.tick(99.0)
    held_back(commits, transactions, 1)
    commits.tick(100.0)
    commits.dry(103.9)
    with pytest.raises(HeldBackError):
        commits.dry(104.1)


def test_what_waited_in_a_task_that_was_lost_does_not_count_against_another() -> None:
    commits, transactions = rig()
    inputs = commits.environment(0).inputs()
    inputs.start(0)
    inputs.settle(0)
    commits.tick(1.0)
    commits.dropped([0])
    commits.dry(1.05)
    held_back(commits, transactions, 1)
    commits.tick(100.0)
    commits.dry(103.9)
    with pytest.raises(HeldBackError):
        commits.dry(104.1)
