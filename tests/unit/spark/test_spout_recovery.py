"""A restarted Spark spout opens messages again that are neither committed as done nor acked since."""

import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from confluent_kafka import TopicPartition

from spark_jobs.delivering import NOTHING, SourceRoots
from spark_jobs.errors import SparkJobError
from spark_jobs.message_table import Prefix
from spark_jobs.outcomes import Outcomes
from spark_jobs.spout_loop import SpoutLoop
from spark_jobs.spout_offsets import prefix_of
from tests.manifests import bolt, manifest, spout
from tests.waiting import eventually
from tuple_tree.positions import OFFSET_BITS

MESSAGES = 1_000
PARTITIONS = 10


class Offsets:
    """The commit of the group; retention has deleted all notices."""

    mark = 0

    def __init__(self, committed: dict[int, Prefix]) -> None:
        self.prefixes = committed

    def committed(self, _partitions: Any) -> dict[int, Prefix]:
        return self.prefixes

    def commit(self, prefixes: dict[int, Prefix]) -> bool:
        self.prefixes = {**self.prefixes, **prefixes}
        return True

    def notices_end(self) -> int:
        return 77

    def read_from(self, _mark: int) -> None:
        self.mark = 77


def positions_of(ranges: dict[int, range]) -> Any:
    parts = [number << OFFSET_BITS | np.asarray(each, np.int64) for number, each in sorted(ranges.items())]
    return np.concatenate([np.empty(0, np.int64), *parts])


def restarted(offsets: Offsets, planned: dict[int, int]) -> Outcomes:
    outcomes = Outcomes(SourceRoots(0, 1, 2), 100_000, 3, 10.0)
    batch: Any = SimpleNamespace(manifest=manifest(spout("lines"), bolt("split", "lines")), spout=spout("lines"))
    reader: Any = SimpleNamespace(topic="source", positions=positions_of)
    spark: Any = None  # it delivers nothing
    control: Any = None  # and is not started
    loop = SpoutLoop(spark, batch, offsets, outcomes, reader, control)  # type: ignore[arg-type]
    loop.recover({number: range(MESSAGES) for number in range(PARTITIONS)}, planned, "earliest")
    return outcomes


def test_after_a_restart_only_open_messages_have_to_be_acked_though_retention_has_deleted_all_notices() -> None:
    before = Outcomes(SourceRoots(0, 1, 2), 100_000, 3, 10.0)
    everything = positions_of({number: range(MESSAGES) for number in range(PARTITIONS)})
    before.recovered(everything, 5)
    stay = np.array([number << OFFSET_BITS | 7 * number for number in range(PARTITIONS)])
    before.done(np.setdiff1d(everything, stay))
    offsets = Offsets(before.prefixes(60))
    assert offsets.prefixes[3] == Prefix(21, 5, ((22, MESSAGES),))
    for _ in range(2):
        outcomes = restarted(offsets, dict.fromkeys(range(PARTITIONS), MESSAGES))
        assert outcomes.outstanding == PARTITIONS
        offsets.commit(outcomes.prefixes(77))
    assert {each.offset for each in offsets.prefixes.values()} == {7 * number for number in range(PARTITIONS)}
    assert offsets.prefixes[3].runs == ((22, MESSAGES),)
    # Offsets that an operator has reset ask for everything again.
    reset = prefix_of(TopicPartition("source", 0, 40, ""))
    assert reset == Prefix(40, -1)
    assert restarted(Offsets({0: reset}), {0: 100}).outstanding == 60


def test_a_commit_has_how_far_was_emitted_only_while_no_micro_batch_may_begin() -> None:
    commits: list[Any] = []
    answers = [True]

    def commit(_prefixes: Any, emitted_to: Any = None) -> bool:
        commits.append((emitted_to, outcomes.control))
        return answers[0]

    def poll(seconds: float) -> list[Any]:
        time.sleep(seconds)
        return []

    outcomes = Outcomes(SourceRoots(0, 1, 2), 100_000, 3, 10.0)
    outcomes.deliver(3, lambda: 0, lambda: False, lambda: NOTHING._replace(positions=np.arange(3)))
    offsets: Any = SimpleNamespace(mark=0, poll=poll, close=lambda: None)
    offsets.commit = commit
    control: Any = SimpleNamespace(look=lambda _now: None, state="paused", close=lambda: None)
    batch: Any = SimpleNamespace(manifest=manifest(spout("lines"), bolt("split", "lines")), spout=spout("lines"))
    reader: Any = SimpleNamespace(close=lambda: None)
    nothing: Any = None
    loop = SpoutLoop(nothing, batch, offsets, outcomes, reader, control)
    loop.start(None, lambda: None, lambda _written: None)
    eventually(lambda: commits and commits[-1] == ({0: 3}, "paused"), "a commit with how far it has emitted")
    answers[0] = False
    control.state = "running"
    eventually(lambda: commits[-1] == (None, "paused"), "a commit without that")
    assert outcomes.control == "paused", "no micro-batch begins before it succeeds"
    answers[0] = True
    eventually(lambda: outcomes.control == "running", "micro-batches")
    loop.stop()
    assert loop.error is None
    assert commits[-1] == ({0: 3}, "stopped")


def test_commits_of_other_versions_are_rejected() -> None:
    with pytest.raises(SparkJobError, match=r"source\[3\]: the commit at offset 5 has metadata of version 1"):
        prefix_of(TopicPartition("source", 3, 5, "1:notices=31"))
