"""A Kafka spout's task where 1 % of the messages fail for ever: others are done, memory and commits stay small."""

from collections.abc import Sequence
from typing import Any, Final

import pytest

from spout_sdk import FailReason
from spout_sdk.kafka.left_out import LEFT_OUT
from spout_sdk.kafka_spout.partitions import Fetched, SourcePartition
from spout_sdk.records import Record
from spout_sdk.testing import MemoryRecord
from tests.unit.sdk.kafka_spout_rig import Rig, notice
from tests.unit.sdk.memory_source import MemorySource, MemoryTopics
from tuple_tree.commit_metadata import LARGEST_METADATA

EACH: Final = 100
"""One in this number of messages fails for ever."""
READ: Final = 500
AT: Final = SourcePartition("source", 0)


def record_at(offset: int) -> MemoryRecord:
    return MemoryRecord(*AT, offset, b"")


class Endless(MemorySource):
    """Makes `end` messages as they are read."""

    end = 0

    def read(self, limit: int, seconds: float = 0.0) -> tuple[Sequence[Record], Sequence[Any]]:
        begin = self.positions[AT]
        self.positions[AT] = min(begin + limit, self.end)
        return [record_at(offset) for offset in range(begin, self.positions[AT])], []

    def lag(self, at: SourcePartition) -> int:
        return self.end - self.positions[at]

    def fetched(self, now: float) -> Fetched | None:
        wanted, self.wanted = self.wanted, None
        return None if wanted is None else Fetched([record_at(offset) for offset in wanted[AT]], [], [])


class EndlessRig(Rig):
    def _open(self) -> MemorySource:
        self.source = Endless(self.topics)
        return self.source


@pytest.mark.parametrize("messages", [10_000, pytest.param(200_000, marks=pytest.mark.exhaustive)])
def test_all_but_the_messages_that_always_fail_are_done_at_full_speed(messages: int) -> None:
    rig = EndlessRig(MemoryTopics(source=1))
    assert isinstance(rig.source, Endless)
    rig.source.end = messages
    sink = rig.bench.sink
    acked = turns = 0
    while acked < messages - messages // EACH:
        turns += 1
        rig.clock.advance(0.01)
        rig.task.tick(rig.clock())
        rig.task.emit(READ)
        rig.task.flush()
        keys = dict(zip(map(rig.root, sink.tuples), rig.task.pending_messages, strict=True))
        sink.tuples.clear()
        sink.reported.clear()
        failed = {root: "no" for root, key in keys.items() if key % EACH == 0}
        rig.task.handle(notice([*(keys.keys() - failed.keys())], failed, FailReason.FAILED))
        acked += len(keys) - len(failed)
    assert turns <= 2 * messages / READ, "new messages get half of the calls at least"
    rig.task.release()
    commit = rig.topics.commits[AT]
    assert commit.offset == 0
    assert len(commit.made().metadata) <= LARGEST_METADATA
    left_out = rig.bench.counters.users.get(LEFT_OUT, 0)
    assert sum(end - begin for begin, end in commit.done.runs) + left_out == acked
