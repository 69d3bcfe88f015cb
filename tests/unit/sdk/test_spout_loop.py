"""The loop of a spout process, with clients in memory: its end by an error, and tasks that move."""

import random
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from kafka_clients.client_settings import CLIENT_CLASSES
from spout_sdk import KafkaSpout, TopologyBuilder
from spout_sdk.errors import BrokerError
from spout_sdk.runtime.component_runner import component_loop
from spout_sdk.runtime.task_loop import ComponentProcess
from spout_sdk.statistics.stats import Counters
from spout_sdk.testing.broker import MemoryBroker, MemoryRecord
from spout_sdk.testing.clients import MemoryClients, MemoryConsumer, MemoryProducer
from tests.components import Sink
from tests.notices import notice_bytes
from tests.packs import tuples_in
from tuple_tree.manifest import Guarantee
from tuple_tree.messages import decode_ack_batch
from tuple_tree.names import component_group, tuples_topic
from tuple_tree.topics import TopicSpec, topic_specs

MESSAGES = 2_000


class Queueing(MemoryProducer):
    """Delivers nothing before a flush."""

    def __init__(self, broker: MemoryBroker, settings: Any) -> None:
        super().__init__(broker, settings)
        self.queue: list[tuple[Any, ...]] = []

    def produce(self, *record: Any) -> None:
        self.queue.append(record)

    def flush(self, seconds: float = 0.0) -> int:
        while self.queue:
            super().produce(*self.queue.pop(0))
        return super().flush(seconds)


class Fenced(MemoryConsumer):
    """Another member has its partitions from its third read on."""

    reads = 0
    _lost: Callable[[], None] | None = None

    def subscribe(self, topics: Sequence[str], *, on_assign: Any, **callbacks: Any) -> None:
        super().subscribe(topics, on_assign=on_assign, **callbacks)
        self._lost = partial(callbacks["on_lost"], self, [TopicPartition(topic, 0) for topic in topics])

    def consume(self, limit: int, seconds: float = 0.0) -> list[MemoryRecord]:
        self.reads += self._lost is not None
        if self._lost is not None and self.reads == 3:
            self._lost()
            raise KafkaException(KafkaError(KafkaError.FENCED_INSTANCE_ID))
        return super().consume(limit, seconds)


class Moving(MemoryConsumer):
    """The group moves its last partition to another member at its third read; at the sixth it is fenced."""

    reads = 0
    _revoke: Callable[[], None] | None = None

    def subscribe(self, topics: Sequence[str], *, on_assign: Any, **callbacks: Any) -> None:
        super().subscribe(topics, on_assign=on_assign, **callbacks)
        last = self._clients.partitions[-1]
        self._revoke = partial(callbacks["on_revoke"], self, [TopicPartition(topic, last) for topic in topics])

    def consume(self, limit: int, seconds: float = 0.0) -> list[MemoryRecord]:
        self.reads += self._revoke is not None
        if self._revoke is not None and self.reads == 3:
            self._revoke()
        if self.reads == 6:
            raise KafkaException(KafkaError(KafkaError.FENCED_INSTANCE_ID))
        return super().consume(limit, seconds)


class Process:
    """A process of a `KafkaSpout` with `MESSAGES` in its source; tick number `ticks` after its first emit raises.

    It gets all tasks, and as many processes of the spout start together. `seconds` pass between two looks at the clock.
    """

    def __init__(
        self,
        guarantee: Guarantee,
        *,
        consumer: type[MemoryConsumer] = MemoryConsumer,
        producer: type[MemoryProducer] = Queueing,
        ticks: int = 10**6,
        tasks: int = 1,
        seconds: float = 0.001,
    ) -> None:
        builder = TopologyBuilder("t", guarantee=guarantee, ack_partitions=1)
        builder.set_spout("numbers", KafkaSpout("source"), tasks=tasks)
        builder.set_bolt("next", Sink, tasks=2).shuffle_grouping("numbers")
        self.topology = builder.build()
        self.broker = MemoryBroker([*topic_specs(self.topology.manifest), TopicSpec("source", 1, {})], lambda: 0)
        for number in range(MESSAGES):
            self.broker.append("source", 0, None, str(number).encode(), None)
        clients = MemoryClients(self.broker, range(tasks), room=10**6)
        settings = clients.settings
        settings[CLIENT_CLASSES] |= {Producer: partial(producer, self.broker), Consumer: partial(consumer, clients)}
        self.left, self.acked, self.counters = ticks, 0, Counters()
        self.emitting_with = set[int]()  # how many tasks it had in ticks after its first emit
        clock = count(100.0, seconds).__next__
        process = ComponentProcess(
            *(self.topology, "numbers", settings, clock, random.Random(1).randbytes, self.counters),
            *(self.tick, lambda: False),
            members=tasks,
        )
        self.loop = component_loop(process, "0")

    def tick(self, _now: float) -> None:
        self.emitting_with.update([len(self.loop.tasks)] if self.counters.emitted else [])
        self.left -= self.counters.emitted > 0
        if not self.left:
            raise BrokerError("the topic is gone")

    def ack_trees(self) -> None:
        """Acks, as the ackers do, the trees whose inits are in the log and that were not acked yet."""
        for record in self.broker.records("t.acks")[self.acked :]:
            roots = decode_ack_batch(record.value()).init_roots.tolist()
            self.broker.append("t.notices.numbers", 0, None, notice_bytes(roots, {}), None)
            self.acked += 1

    def end(self, error: str = "the topic is gone") -> None:
        """Runs until that error."""
        with pytest.raises(BrokerError, match=error):
            self.loop.run(lambda: False)

    @property
    def delivered(self) -> list[int]:
        records = self.broker.records(tuples_topic("t", "next"))
        stream = self.topology.manifest.stream("numbers", "default")
        return sorted(int(str(each.values[0])) for each in tuples_in(records, stream))

    @property
    def committed(self) -> int:
        found = self.broker.committed(component_group("t", "numbers"), "source", 0)
        assert found is not None
        return found.offset


def test_a_spout_that_ends_by_an_error_sends_what_is_committed_and_sets_back_the_rest(
    caplog: pytest.LogCaptureFixture,
) -> None:
    process = Process("at_most_once", ticks=1)
    process.end()
    assert 0 < process.committed < MESSAGES
    assert process.delivered == list(range(process.committed))
    assert "are lost" not in caplog.text


def test_what_a_lost_spout_has_committed_and_not_emitted_is_reported_and_the_rest_is_sent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    process = Process("at_most_once", consumer=Fenced)
    process.end("cannot continue")
    emitted = len(process.delivered)
    assert process.delivered == list(range(emitted))
    assert 0 < emitted < process.committed == MESSAGES
    lost = f"numbers/0: up to {MESSAGES - emitted} messages of source[0], from offset {emitted} on, are lost"
    assert lost in caplog.text


def test_the_error_that_ends_a_spout_is_reported_whatever_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process("at_most_once", ticks=1)

    def raises(*_: Any) -> int:
        if process.left <= 0:
            raise BrokerError("another")
        return 0

    for method in ("flush", "produce"):
        monkeypatch.setattr(Queueing, method, raises)
    process.end()
    assert 0 < process.committed < MESSAGES, "the others are read again"


def test_trees_of_a_spout_that_ends_by_an_error_are_left_to_the_replay() -> None:
    process = Process("at_least_once", ticks=1)
    process.end()
    assert (process.committed, process.delivered) == (0, [])


def test_the_trees_of_a_task_that_moves_end_before_its_next_owner_emits_their_messages_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    process = Process("at_least_once", consumer=Moving, producer=MemoryProducer)
    ticks = iter(range(10**6))

    def tick(_now: float) -> None:
        if process.counters.emitted and next(ticks) > 100:
            process.ack_trees()

    monkeypatch.setattr(process.loop, "_on_tick", tick)
    process.end("cannot continue")
    assert 0 < process.committed == len(process.delivered) == process.counters.acked


def test_a_task_moves_after_a_few_seconds_though_its_trees_have_no_outcome() -> None:
    process = Process("at_least_once", consumer=Moving, producer=MemoryProducer)
    process.end("cannot continue")
    assert process.committed == process.counters.acked == 0
    assert process.delivered


def test_a_spout_emits_nothing_before_the_processes_that_start_with_it_have_their_tasks() -> None:
    process = Process("at_least_once", consumer=Moving, tasks=2)
    process.end("cannot continue")
    assert process.emitting_with == {1}


def test_a_spout_emits_after_some_seconds_if_a_process_that_starts_with_it_does_not_join() -> None:
    process = Process("at_least_once", tasks=2, ticks=1, seconds=0.1)
    process.end()
    assert process.emitting_with == {2}
