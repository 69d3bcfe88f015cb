"""A Kafka spout's task where 1 % of the messages fail for ever: others are done, memory and commits stay small."""

from typing import Final

import pytest

from spout_sdk.kafka.left_out import LEFT_OUT
from spout_sdk.kafka_spout.partitions import SourcePartition
from tests.unit.sdk.kafka_spout_rig import Rig, filled, notice
from tuple_tree.commit_metadata import LARGEST_METADATA

EACH: Final = 100
"""One in this number of messages fails for ever."""
READ: Final = 500


@pytest.mark.parametrize("messages", [10_000, pytest.param(200_000, marks=pytest.mark.exhaustive)])
def test_all_but_the_messages_that_always_fail_are_done_at_full_speed(messages: int) -> None:
    rig = Rig(filled(*range(messages)))
    sink = rig.bench.sink
    acked = turns = 0
    while acked < messages - messages // EACH:
        turns += 1
        rig.task.tick(rig.clock.advance(0.01))
        rig.task.emit(READ)
        rig.task.flush()
        keys = dict(zip(map(rig.root, sink.tuples), rig.task.pending_messages, strict=True))
        sink.tuples.clear()
        sink.reported.clear()
        failed = {root: "no" for root, key in keys.items() if key % EACH == 0}
        rig.task.handle(notice([*(keys.keys() - failed.keys())], failed))
        acked += len(keys) - len(failed)
    assert turns <= 2 * messages / READ, "new messages get half of the calls at least"
    rig.task.release()
    commit = rig.topics.commits[SourcePartition("source", 0)]
    assert commit.offset == 0
    assert len(commit.made().metadata) <= LARGEST_METADATA
    left_out = rig.bench.counters.users.get(LEFT_OUT, 0)
    assert sum(end - begin for begin, end in commit.done.runs) + left_out == acked
