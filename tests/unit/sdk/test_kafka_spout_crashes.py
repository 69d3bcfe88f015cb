"""A Kafka spout with repeated kills, against the ackers' real fold and bolts that keep every tuple.

Records that the spout's process has sent and Kafka has not appended are lost with it. A killed process may be a
zombie, which continues for a while. What was committed as done is never emitted again, unless a later commit had no
room for it. Bolts take tuples in any order, emit children with random edges, fail some, and may
process one twice.
"""

import random
from collections import defaultdict
from dataclasses import dataclass, field
from functools import partial

import pytest

from acker_worker.fold import Step
from acker_worker.ledger import LedgerSettings
from spout_sdk import FailReason, RetryPolicy
from spout_sdk.delivery import delivery_guarantees
from spout_sdk.delivery.delivery_guarantees import DeliveryGuarantee
from spout_sdk.spouts.spout_task import SpoutTask
from tests.ack_log import START_MS, FoldedLog, acked_roots
from tests.seeds import each_seed
from tests.unit.sdk.kafka_spout_rig import Rig, notice
from tests.unit.sdk.memory_source import MemoryTopics
from tuple_tree import commit_metadata
from tuple_tree.source_commits import SourceCommit
from tuple_tree.source_partition import SourcePartition

MESSAGES = 60
KILLS = 6
At = tuple[int, int]
"""Partition and offset of a message."""


@dataclass(eq=False)
class Work:
    """A tuple in an inbox; `runs` has the children of each acked execution."""

    root: int
    edge: int
    depth: int = 0
    runs: list[list["Work"]] = field(default_factory=list)

    @property
    def is_done(self) -> bool:
        """Whether it was acked, and so were all that one execution emitted."""
        return any(all(child.is_done for child in run) for run in self.runs)


@dataclass
class Run:
    """Everything around the spout; with `faults`, records are lost with a process, and bolts repeat."""

    rng: random.Random
    faults: bool
    has_room: bool = True  # for all that is done, in the metadata of commits
    inbox: list[Work] = field(default_factory=list)
    trees: dict[int, Work] = field(default_factory=dict)
    processed: set[At] = field(default_factory=set)
    done: set[At] = field(default_factory=set)  # as committed
    notices: list[tuple[int, FailReason | None]] = field(default_factory=list)
    outcomes: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def __post_init__(self) -> None:
        topics = MemoryTopics(source=2)
        # Compaction and transaction markers have left gaps.
        for partition in range(2):
            topics.fill("source", partition, sorted(self.rng.sample(range(MESSAGES * 2), MESSAGES)))
        settings = LedgerSettings(tick_ms=1_000, max_age_ms=8_000, orphan_timeout_ms=2_000)
        self.log = FoldedLog(2, settings)
        retry = RetryPolicy(initial_delay=0, delay_period=0.005, max_delay=0.05, max_retries=None)
        self.rig = Rig(topics, seed=self.rng.getrandbits(32), retry=retry, max_pending=40, max_uncommitted_offsets=50)
        self.rig.bench.sink.holds_back = True
        self.rig.bench.holds_back = True
        self.advance(0)
        self.taken = self.reported = 0
        self.zombie: tuple[SpoutTask, DeliveryGuarantee] | None = None
        self.seen_commits: dict[SourcePartition, SourceCommit] = {}
        self.take(1.0)

    def take(self, share: float) -> None:
        """Kafka appends some of the sent records, in order, ack batches as well."""
        sink = self.rig.bench.sink
        for sent in sink.tuples[self.taken :]:
            if self.rng.random() >= share:
                break
            self.taken += 1
            ((root, edge),) = sent.edges.items()
            assert root not in self.trees
            self.trees[root] = Work(root, edge)
            self.inbox.append(self.trees[root])
        for sent in sink.reported[self.reported :]:
            if self.rng.random() >= share:
                break
            self.reported += 1
            assert not sent.topic.endswith(".dead-letters")
            self.check_outcomes(self.log.append(sent.partition, sent.value))
            sent.deliver()

    def check_outcomes(self, step: Step) -> None:
        for root in acked_roots(step):
            assert self.at(root) in self.processed, f"{self.at(root)} was acked with open tuples"
            self.notices.append((root, None))
        for notified in step.outcomes.values():
            self.notices += [(root, reason) for root, reason, *_ in notified.failed]

    def at(self, root: int) -> At:
        position = self.rig.topics.position(root, 1)
        return position.partition, position.offset

    def bolt(self) -> None:
        """Processes a tuple, with possible faults."""
        if not self.inbox:
            return
        work = self.inbox.pop(self.rng.randrange(min(30, len(self.inbox))))
        if self.rng.random() < 0.1:
            self.check_outcomes(self.log.send(work.root, fails=[work.root]))
            return
        val, children = work.edge, []
        for _ in range(self.rng.randrange(3) if work.depth < 2 else 0):
            child = Work(work.root, self.rng.getrandbits(64) or 1, work.depth + 1)
            val ^= child.edge
            children.append(child)
        self.inbox += children
        work.runs.append(children)
        if self.faults and self.rng.random() < 0.05:
            # It was killed after this, so it will do it again.
            self.inbox.append(work)
        if self.trees[work.root].is_done:
            self.processed.add(self.at(work.root))
        self.check_outcomes(self.log.send(work.root, acks=[(work.root, val)]))

    def read_notices(self, count: int) -> None:
        """The spout reads notices."""
        for root, reason in self.notices[:count]:
            self.outcomes["acked" if reason is None else reason.word] += 1
            self.rig.task.handle(notice([root]) if reason is None else notice([], {root: ""}, reason))
        del self.notices[:count]

    def spout(self) -> None:
        sent = self.rig.bench.sink.tuples
        before = len(sent)
        self.rig.tick()
        self.know_done()
        self.rig.task.emit(self.rng.randrange(1, 8))
        if self.rng.random() < 0.5:
            self.rig.task.flush()
        emitted = [self.at(root) for each in sent[before:] for root in each.edges]
        unknown = [(at, offset) for at, offset in emitted if offset >= self.emitted_to(at)]
        assert not unknown, f"{unknown} are emitted, and no commit says that"
        again = self.done and {self.at(root) for each in sent[before:] for root in each.edges} & self.done
        assert not again, f"{again} were committed as done, and are emitted again"

    def emitted_to(self, partition: int) -> int:
        return self.rig.topics.commits[SourcePartition("source", partition)].emitted_to

    def know_done(self) -> None:
        """Reads what is committed."""
        if self.rig.topics.commits != self.seen_commits:
            self.seen_commits = self.rig.topics.commits.copy()
            self.done |= self.committed_as_done()

    def committed_as_done(self) -> set[At]:
        return {
            (at.partition, offset)
            for at, commit in self.rig.topics.commits.items()
            for begin, end in ((0, commit.offset), *commit.done.runs)
            for offset in range(begin, end)
        }

    def kill(self) -> None:
        """A kill, or a zombie: another process takes over, from the end of the notices on."""
        self.take(self.rng.random())
        if self.faults:  # records in flight are lost
            self.taken, self.reported = len(self.rig.bench.sink.tuples), len(self.rig.bench.sink.reported)
        else:
            self.take(1.0)
        self.notices.clear()
        self.rig.source.is_fenced = True
        self.zombie = (self.rig.task, self.rig.commits) if self.rng.random() < 0.3 else None
        self.rig.restart()
        if not self.has_room:
            self.done = self.committed_as_done()
        self.take(1.0)

    def run_zombie(self) -> None:
        """A zombie has no effect."""
        if self.zombie is not None:
            task, commits = self.zombie
            task.tick(self.rig.clock())
            commits.tick(self.rig.clock())
            task.emit(2)
            task.flush()
            if self.rng.random() < 0.2:
                self.zombie = None

    def advance(self, seconds: float) -> None:
        self.rig.clock.advance(seconds)
        self.log.now_ms = START_MS + int(self.rig.clock() * 1000)
        for fold in self.log.folds:
            self.check_outcomes(fold.advance(self.log.now_ms))

    def check(self) -> None:
        self.know_done()
        for at, log in self.rig.topics.logs.items():
            wrongly = [o for o in log if (at.partition, o) in self.done and (at.partition, o) not in self.processed]
            assert not wrongly, f"{wrongly} of {at} are committed as done, and were not processed"

    @property
    def is_done(self) -> bool:
        return all(
            self.rig.topics.committed("source", partition) == self.rig.topics.end(at)
            for partition, at in enumerate(self.rig.topics.logs)
        )


@pytest.mark.parametrize(("faults", "has_room"), [(False, True), (True, True), (True, False)])
def test_crashes_lose_no_message_and_no_root_is_used_twice(
    faults: bool, has_room: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery_guarantees, "_COMMIT_SECONDS", 0.01)
    if not has_room:
        monkeypatch.setattr(commit_metadata, "LARGEST_METADATA", 40)
    each_seed(partial(check_run, faults, has_room))


def check_run(faults: bool, has_room: bool, seed: int) -> None:
    rng = random.Random(seed)
    run = Run(rng, faults, has_room)
    kills = 0
    for step in range(60_000):
        act = rng.random()
        if act < 0.35:
            run.spout()
        elif act < 0.70:
            run.bolt()
        elif act < 0.80:
            run.read_notices(rng.randrange(6))
        elif act < 0.90:
            run.take(0.9)
        elif act < 0.95:
            run.advance(rng.choice([0.001, 0.005, 0.02]))
            run.run_zombie()
        elif act > 0.996 and kills < KILLS:
            kills += 1
            run.kill()
        if step % 20 == 0:
            run.check()
            if kills == KILLS and run.is_done:
                break
    assert run.is_done, run.rig.topics.commits
    assert sum(fold.counters.duplicate_inits for fold in run.log.folds) == 0
    if not faults:
        assert run.outcomes["timeout"] + run.outcomes["too_old"] == 0, "a tree could only time out"
