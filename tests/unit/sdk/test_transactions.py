"""The time for which a process with transactions holds an input back."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from spout_sdk import OpenInputsError
from spout_sdk.delivery.exactly_once import ExactlyOnce
from spout_sdk.emitting.input_offsets import InputOffsets
from spout_sdk.statistics.stats import Counters
from tests.unit.sdk.memory import open_pack, opened
from tuple_tree.commit_metadata import LARGEST_METADATA, Commit
from tuple_tree.done_sets import DoneSet


class Transactions:
    """Transactions of one task without a commit."""

    timeout = 8.0

    def __init__(self) -> None:
        self.emitted = 0

    @property
    def is_used(self) -> bool:
        return self.emitted > 0

    def poll(self) -> None: ...


class Task:
    def __init__(self, inputs: InputOffsets) -> None:
        self.inputs = inputs

    @property
    def committable(self) -> int | None:
        return self.inputs.committable

    @property
    def open_inputs(self) -> int:
        return self.inputs.open_count

    def commit(self, _room: int, *, in_transaction: bool) -> Commit | None:
        done = self.inputs.settled()
        return None if done is None else Commit.of(done)

    @property
    def is_repeatable(self) -> bool:
        return self.inputs.is_repeatable

    def execute_untracked(self, _until: float) -> None: ...

    def flush(self) -> None: ...


class Process:
    """The guarantee of a process, and its tasks."""

    def __init__(self, transactions: Any, reader: Any = None) -> None:
        self.tasks: dict[int, Any] = {}
        reader = reader or SimpleNamespace(metadata_room=LARGEST_METADATA)
        self.guarantee = ExactlyOnce("b", transactions, reader, self.tasks, Counters(), clock=lambda: 0.0)

    def assigned(self, partition: int, emitted: Callable[[], int]) -> InputOffsets:
        task: Any = Task(InputOffsets(emitted))
        self.guarantee.open({partition: task})
        self.tasks[partition] = task
        return task.inputs  # type: ignore[no-any-return]

    def lost(self, partition: int) -> None:
        del self.tasks[partition]
        self.guarantee.drop([partition])


@pytest.mark.parametrize("has_lost_a_task", [False, True])
def test_an_input_is_held_back_for_at_most_half_of_the_timeout(has_lost_a_task: bool) -> None:
    transactions: Any = Transactions()
    process = Process(transactions)
    guarantee = process.guarantee
    if has_lost_a_task:
        # What waited in it does not count against the other one.
        inputs = process.assigned(0, lambda: 0)
        pack = opened(inputs, open_pack(0))
        inputs.settle([pack])
        guarantee.tick(1.0)
        process.lost(0)
        guarantee.flush(1.05)
    guarantee.tick(99.0)
    # A bolt has emitted while it holds an input.
    opened(process.assigned(1, lambda: transactions.emitted), open_pack(0))
    transactions.emitted += 1
    guarantee.tick(100.0)
    guarantee.flush(103.9)
    with pytest.raises(OpenInputsError):
        guarantee.flush(104.1)


def test_tuples_of_an_early_tick_are_fenced_by_the_group() -> None:
    """A transaction without offsets is not fenced: a process that has left the group could still commit it."""
    committed: list[Any] = []

    class Committing(Transactions):
        def commit(self, positions: Any, group: Any) -> None:
            committed.append((positions, group))

    class Reader:
        metadata_room = LARGEST_METADATA
        place_in_group = "generation 1"

        def starts(self, partitions: tuple[int, ...]) -> dict[int, int]:
            # Another process gets the tasks as soon as their offsets are known, and commits later ones.
            self.place_in_group = "generation 2"
            return dict.fromkeys(partitions, 17)

    transactions: Any = Committing()
    reader: Any = Reader()
    process = Process(transactions, reader)
    process.assigned(3, lambda: transactions.emitted)
    transactions.emitted += 1
    process.guarantee.tick(100.0)
    process.guarantee.flush(101.0)
    assert committed == [({3: 17}, "generation 1")], "the group refuses it, as these may not be its last offsets"


def test_an_input_that_is_done_while_another_is_begun_is_committed() -> None:
    committed: list[Any] = []

    class Untracked(Transactions):
        """Of inputs that belong to no tree: nothing is sent when they are acked."""

        def commit(self, positions: Any, group: Any) -> None:
            committed.append(positions)

    class Reader:
        place_in_group = "generation 1"
        metadata_room = LARGEST_METADATA

        def positions(self, commits: Any) -> Any:
            return commits

    transactions: Any = Untracked()
    reader: Any = Reader()
    process = Process(transactions, reader)
    inputs = process.assigned(3, lambda: 0)
    for offset in range(2):
        opened(inputs, open_pack(offset))
    process.guarantee.flush(101.0)
    opened(inputs, open_pack(2))
    inputs.settle([open_pack(1)])
    process.guarantee.flush(102.0)
    assert committed == [{3: Commit(0, "")}, {3: Commit.of(DoneSet(0, [(1, 2)]))}]
