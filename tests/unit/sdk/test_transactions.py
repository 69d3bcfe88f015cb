"""Transactions of a process: what they commit, and for how long they may wait."""

from typing import Any

import pytest
from confluent_kafka import TopicPartition

from spout_sdk.api.tuples import UNKNOWN_STREAM, InputPack
from spout_sdk.bolts.bolt_task import BoltTask
from spout_sdk.delivery.exactly_once import ExactlyOnce
from spout_sdk.emitting.input_offsets import InputOffsets
from spout_sdk.errors import OpenInputsError
from spout_sdk.records import MadeRecord
from spout_sdk.statistics.stats import Counters
from tuple_tree.commit_metadata import LARGEST_METADATA, Commit
from tuple_tree.done_sets import DoneSet


def open_pack(offset: int) -> InputPack:
    """A record of a tuple that is not settled."""
    return InputPack(MadeRecord(), UNKNOWN_STREAM, offset, 1)


def opened(inputs: InputOffsets, pack: InputPack) -> InputPack:
    """A record that is opened, as a task does that reads it."""
    assert inputs.start(pack.offset)
    inputs.open(pack)
    return pack


class Task:
    can_commit = True
    progress_key = BoltTask.progress_key
    open_inputs = property(lambda self: self.inputs.open_count)
    committable = property(lambda self: self.inputs.committable)

    def __init__(self, partition: int, inputs: InputOffsets) -> None:
        self.at, self.inputs = ("t.tuples.b", partition), inputs

    def commits(self, _room: int, *, in_transaction: bool) -> dict[Any, Commit]:
        done = self.inputs.settled()
        return {} if done is None else {self.at: Commit.of(done)}

    def committed(self) -> None: ...

    def execute_untracked(self, _until: float) -> None: ...

    def flush(self) -> None: ...


class Process:
    """The guarantee of a process and its tasks, and its own transactions and reader."""

    timeout = 8.0
    metadata_room = LARGEST_METADATA
    place_in_group = "generation 1"
    is_used = property(lambda self: self.emitted > 0)

    def __init__(self) -> None:
        self.emitted = 0
        self.committed: list[Any] = []
        self.tasks: dict[int, Any] = {}
        own: Any = self
        self.guarantee = ExactlyOnce("b", own, own, self.tasks, Counters(), clock=lambda: 0.0)

    def poll(self) -> None: ...

    def commit(self, positions: Any, group: Any) -> None:
        self.committed.append(([(each.partition, each.offset, each.metadata or "") for each in positions], group))

    def starts(self, partitions: tuple[int, ...]) -> list[TopicPartition]:
        # Another process gets the tasks as soon as their offsets are known, and commits later ones.
        self.place_in_group = "generation 2"
        return [TopicPartition("t.tuples.b", each, 17) for each in partitions]

    def assigned(self, partition: int) -> InputOffsets:
        task: Any = Task(partition, InputOffsets())
        self.guarantee.open({partition: task})
        self.tasks[partition] = task
        return task.inputs  # type: ignore[no-any-return]


@pytest.mark.parametrize("has_lost_a_task", [False, True])
def test_a_transaction_waits_for_at_most_half_of_its_timeout(has_lost_a_task: bool) -> None:
    process = Process()
    guarantee = process.guarantee
    if has_lost_a_task:
        # What waited in it does not count against the other one.
        inputs = process.assigned(0)
        inputs.settle([opened(inputs, open_pack(0))])
        guarantee.tick(1.0)
        del process.tasks[0]
        guarantee.drop([0])
        guarantee.flush(1.05)
    guarantee.tick(99.0)
    opened(process.assigned(1), open_pack(0))
    process.tasks[1].can_commit = False
    process.emitted += 1
    guarantee.tick(100.0)
    guarantee.flush(103.9)
    with pytest.raises(OpenInputsError):
        guarantee.flush(104.1)


def test_tuples_of_an_early_tick_are_fenced_by_the_group() -> None:
    """A transaction without offsets is not fenced: a process that has left the group could still commit it."""
    process = Process()
    process.assigned(3)
    process.emitted += 1
    process.guarantee.tick(100.0)
    process.guarantee.flush(101.0)
    expected = [([(3, 17, "")], "generation 1")]
    assert process.committed == expected, "the group refuses it, as these may not be its last offsets"


def test_an_input_that_is_done_while_another_is_begun_is_committed() -> None:
    """Inputs belong to no tree: nothing is sent when they are acked."""
    process = Process()
    inputs = process.assigned(3)
    for offset in range(2):
        opened(inputs, open_pack(offset))
    process.guarantee.flush(101.0)
    opened(inputs, open_pack(2))
    inputs.settle([open_pack(1)])
    process.guarantee.flush(102.0)
    metadata = ["", Commit.of(DoneSet(0, [(1, 2)])).metadata]
    assert process.committed == [([(3, 0, each)], "generation 1") for each in metadata]
