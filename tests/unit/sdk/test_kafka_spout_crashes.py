"""A Kafka spout with repeated kills, before acking bolts that take tuples in any order, fail some, and are killed, too.

Records that its process has sent and Kafka has not appended are lost with it. A killed process may be a zombie, which
continues for a while. What was committed as done is never emitted again, unless a later commit had no room for it.
"""

import random
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from kafka_clients.group_consumer import GroupConsumer
from spout_sdk import FailReason, KafkaSpout, RetryPolicy, TopologyBuilder, Tuple, declare
from spout_sdk.delivery import delivery_guarantees
from spout_sdk.testing import MemoryRecord, NotIdleError, SimulatedCluster, clients
from tests.components import ByHand
from tests.packs import edges_in
from tests.seeds import each_seed
from tuple_tree.messages import decode_ack_batch, decode_notice_batch
from tuple_tree.positions import position_of, topic_key
from tuple_tree.source_commits import SourceCommit

MESSAGES = 40
KILLS = 6
PARTITIONS = (0, 1)
At = tuple[int, int]
"""Partition and offset of a message."""


class LosingProducer(clients.MemoryProducer):
    """Kafka appends its records some time after they were sent; what is left is lost with its process."""

    def __init__(self, run: "Run", *given: Any) -> None:
        super().__init__(*given)
        self.run, self.queue = run, deque[Callable[[], None]]()

    def produce(self, topic: str, *record: Any) -> None:
        if ".tuples." in topic:
            self.run.check_emitted(record[-1])
        self.queue.append(partial(super().produce, topic, *record))

    def poll(self, seconds: float = 0.0) -> int:
        while self.queue and self.run.rng.random() < 0.9:
            self.queue.popleft()()
        return super().poll(seconds)

    def flush(self, seconds: float = 0.0) -> int:
        while self.queue:
            self.queue.popleft()()
        return super().flush(seconds)


class FencedConsumer(clients.MemoryConsumer):
    """Cannot commit once another process has its partitions."""

    def __init__(self, run: "Run", *given: Any) -> None:
        super().__init__(*given)
        self.run, self.generation = run, run.kills

    def commit(self, **more: Any) -> Any:
        if self.generation != self.run.kills:
            raise KafkaException(KafkaError(KafkaError.FENCED_INSTANCE_ID))
        return super().commit(**more)


class AnyOrder(ByHand):
    """Executes some of its tuples at each tick and each further tuple; fails some."""

    tick_interval = 0.01

    def __init__(self, run: "Run") -> None:
        self.run = run

    def execute(self, tuple_: Tuple) -> None:
        if not tuple_.is_tick:
            self.held.append(tuple_)
        for _ in range(min(len(self.held), self.run.rng.choice((0, 1, 3)))):
            taken = self.held.pop(self.run.rng.randrange(min(30, len(self.held))))
            if self.run.rng.random() < 0.1:
                self.collector.fail(taken)
            else:
                self.process(taken)

    def process(self, tuple_: Tuple) -> None:
        """The last bolt: a message is processed when all tuples of an execution of the first one are."""
        message, execution, left = tuple_.values
        done = self.run.acked_of.setdefault((message, execution), set())
        done.add(left)
        if len(done) == 1 + max(done):
            self.run.processed.add(message)
        self.collector.ack(tuple_)


class First(AnyOrder):
    """Emits some tuples, the one with the largest number first."""

    streams = (declare({"message": str, "execution": int, "left": int}),)

    def process(self, tuple_: Tuple) -> None:
        message, execution = tuple_["value"], next(self.run.executions)
        for left in reversed(range(self.run.rng.choice((1, 2, 5)))):
            self.collector.emit((message, execution, left), anchors=tuple_)
        self.collector.ack(tuple_)


class Run(SimulatedCluster):
    """A topology; with `faults`, records are lost with a process, and bolts are killed."""

    def __init__(self, rng: random.Random, faults: bool, has_room: bool) -> None:
        self.rng, self.faults, self.has_room = rng, faults, has_room
        self.acked_of: dict[tuple[str, int], set[int]] = {}  # message and execution → its acked tuples
        self.executions = count()
        self.processed = set[str]()  # texts of messages
        self.begun, self.done = set[int](), set[At]()
        self.commits: dict[int, SourceCommit] = {}
        self.kills = 0
        self.zombie: Any = None
        self.is_of_zombie = False
        retry = RetryPolicy(initial_delay=0, delay_period=0.005, max_delay=0.05, max_retries=None)
        builder = TopologyBuilder("t", ack_partitions=2, message_timeout=2, max_tree_age=8, max_spout_pending=40)
        builder.set_spout("first", KafkaSpout("other"))
        builder.set_spout("lines", KafkaSpout("source", retry=retry, max_uncommitted_offsets=50))
        builder.set_bolt("split", partial(First, self)).shuffle_grouping("lines")
        builder.set_bolt("end", partial(AnyOrder, self)).shuffle_grouping("split")
        super().__init__(builder, seed=rng.getrandbits(32), topics={"source": 2}, step=0.01)
        self.append, self.broker.append = self.broker.append, self.appended  # type: ignore[assignment]
        self.commit, self.broker.commit = self.broker.commit, self.note_commit  # type: ignore[method-assign]
        # Compaction and transaction markers have left gaps.
        self.messages = {(partition, offset) for partition in PARTITIONS for offset in range(2 * MESSAGES)}
        for partition, offset in sorted(self.messages):
            self.produce("source", f"{partition} {offset}", partition=partition)
        for partition in PARTITIONS:
            for offset in rng.sample(range(1, 2 * MESSAGES), MESSAGES):
                self.broker.delete("source", partition, offset, offset + 1)
                self.messages.remove((partition, offset))

    def _begin(self, component: str, number: int) -> None:
        with pytest.MonkeyPatch.context() as patch:
            if component == "lines":
                patch.setattr(clients, "MemoryProducer", partial(LosingProducer, self))
                patch.setattr(clients, "MemoryConsumer", partial(FencedConsumer, self))
            super()._begin(component, number)

    def _turns(self) -> Any:
        zombie = [] if self.zombie is None else [("zombie", self.run_zombie)]
        return [*super()._turns(), *zombie]

    def run_zombie(self, limit: int) -> bool:
        assert self.zombie is not None
        self.is_of_zombie = True
        self.zombie.turn(limit)
        if self.rng.random() < 0.05:
            self.lose(self.zombie)
            self.zombie = None
        self.is_of_zombie = False
        return False

    def lose(self, process: Any) -> None:
        """A process has ended: without faults, Kafka has appended all that it has sent."""
        if not self.faults:
            process._loop.flush()
            process._loop._sink.flush(0)

    def at(self, root: int) -> At:
        position = position_of(root, topic_key("source"), 2)
        return position.partition, position.offset

    def check_emitted(self, headers: Any) -> None:
        if self.is_of_zombie:
            return
        for edges in edges_in(headers):
            for partition, offset in map(self.at, edges):
                assert offset < self.commits[partition].emitted_to, f"{offset} is emitted, and no commit says that"
                assert (partition, offset) not in self.done, f"{offset} was committed as done, and is emitted again"

    def appended(self, topic: str, *record: Any) -> MemoryRecord:
        made = self.append(topic, *record)
        if topic == "t.acks":
            roots = decode_ack_batch(made.value()).init_roots.tolist()
            assert not self.begun & {*roots}, "a root is used twice"
            self.begun.update(roots)
        elif topic == "t.notices.lines":
            for root in decode_notice_batch(made.value()).acked_roots.tolist():
                assert self.is_processed(*self.at(root)), f"{self.at(root)} was acked with open tuples"
        return made

    def is_processed(self, partition: int, offset: int) -> bool:
        return f"{partition} {offset}" in self.processed or (partition, offset) not in self.messages

    def note_commit(self, group: str, offsets: Any) -> None:
        """Commits, and checks what is committed as done."""
        self.commit(group, offsets)
        if group == "t.lines":
            self.commits |= {at.partition: SourceCommit.read(at.offset, at.metadata) for at in offsets}
            new = self.committed_as_done() - self.done
            wrongly = [at for at in new if not self.is_processed(*at)]
            assert not wrongly, f"{wrongly} are committed as done, and were not processed"
            self.done |= new

    def committed_as_done(self) -> set[At]:
        return {
            (partition, offset)
            for partition, commit in self.commits.items()
            for begin, end in ((0, commit.offset), *commit.done.runs)
            for offset in range(begin, end)
        }

    def crash(self) -> None:
        """A kill, or a zombie: another process takes over."""
        old = self._tasks["lines", 0]
        self.lose(old)
        self.kills += 1
        self.zombie = old if self.rng.random() < 0.3 else None
        self.kill("lines")
        if not self.has_room:
            self.done = self.committed_as_done()
        if self.faults:
            self.kill(self.rng.choice(("split", "end")))

    @property
    def is_done(self) -> bool:
        return {each.offset for each in self.commits.values()} == {2 * MESSAGES}


@pytest.mark.parametrize(("faults", "has_room"), [(False, True), (True, True), (True, False)])
def test_crashes_lose_no_message_and_no_root_is_used_twice(
    faults: bool, has_room: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery_guarantees, "_COMMIT_SECONDS", 0.01)
    if not has_room:
        monkeypatch.setattr(GroupConsumer, "metadata_room", 40)
    each_seed(partial(check_run, faults, has_room))


def check_run(faults: bool, has_room: bool, seed: int) -> None:
    rng = random.Random(seed)
    run = Run(rng, faults, has_room)
    for _ in range(3_000):
        turns = iter(range(rng.randrange(30)))
        with suppress(NotIdleError):
            run.run_until(lambda left=turns: next(left, None) is None)  # type: ignore[misc]
        run.clock.elapsed_ms += rng.choice([1, 5, 20])
        if run.kills < KILLS and rng.random() < 0.05:
            run.crash()
        if run.kills == KILLS and run.is_done:
            break
    assert run.is_done, run.commits
    assert run.processed == {f"{partition} {offset}" for partition, offset in run.messages}
    if not faults:
        reasons = {failure.reason for _, failure in run.failed("lines")}
        assert reasons <= {FailReason.FAILED}, "a tree could only time out"
