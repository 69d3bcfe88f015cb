"""The guarantees when processes join and leave in order or records are rejected, and those of transactions."""

import random
import uuid
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from spout_sdk import KafkaBolt, OutputCollector, Tuple
from spout_sdk.delivery.transactional_sink import TransactionalSink
from spout_sdk.errors import RolledBackError
from tests.contract.components import Hold, Messages, MessageSpout, alone, line, tuples_in
from tests.contract.real import Real, RealWorld
from tests.topics import create_topics
from tests.waiting import eventually
from tuple_tree.manifest import Guarantee
from tuple_tree.names import tuples_topic

COPIES = 2


def copy(tuple_: Tuple, collector: OutputCollector) -> None:
    for number in range(COPIES):
        collector.emit((tuple_["word"], number), anchors=tuple_)
    collector.ack(tuple_)


def outputs(running: Real) -> Counter[Any]:
    """The committed outputs of `one`."""
    records = running.records(tuples_topic(running.topology.name, "two"))
    return Counter(values for values, _ in tuples_in(records))


def each_once(messages: int) -> Counter[Any]:
    return Counter((str(number), copy) for number in range(messages) for copy in range(COPIES))


def add_numbers(messages: Messages, first: int, end: int, **options: Any) -> None:
    for number in range(first, end):
        messages.add(str(number), **options)


@pytest.mark.parametrize("guarantee", ["at_least_once", pytest.param("exactly_once", marks=pytest.mark.smoke)])
def test_tasks_that_move_in_order_lose_and_repeat_nothing(world: RealWorld, guarantee: Guarantee) -> None:
    """At least once may repeat inputs of a commit that was rejected during the rebalance; it loses none."""
    builder = world.builder(guarantee=guarantee, message_timeout=120, ack_partitions=2)
    messages, _, _ = line(builder, copy, tasks=3)
    emitted = 0

    def busy(condition: Callable[[], bool]) -> Callable[[], bool]:
        """Emits more while it waits, so that tasks move during transactions."""

        def more() -> bool:
            nonlocal emitted
            add_numbers(messages, emitted, emitted + 50)
            emitted += 50
            return condition() and len(messages.acked) > emitted / 2

        return more

    with world.run(builder.build()) as running:
        first = running.runners["one"]
        eventually(busy(lambda: len(first.stats.tasks) == 3), "one process has all tasks")
        second, thread = running.start("one")
        eventually(busy(lambda: second.stats.executed > 50), "two processes share them")
        second.stop()
        eventually(busy(lambda: len(first.stats.tasks) == 3), "one process has all tasks again")
        thread.join()
        eventually(lambda: len(messages.acked) == emitted, "every message acked")
        found = outputs(running)
    assert (found if guarantee == "exactly_once" else Counter(found.keys())) == each_once(emitted)
    assert sorted(messages.acked_ids) == sorted(map(str, range(emitted)))
    assert not messages.failed


class Refused(Producer):
    """Its first two transactions are rejected, like those of a member that has left the group."""

    refusals = 0

    def send_offsets_to_transaction(self, positions: Any, group_metadata: Any, timeout: float = -1) -> None:
        if Refused.refusals:
            Refused.refusals -= 1
            raise KafkaException(KafkaError(KafkaError.ILLEGAL_GENERATION, "made up", False, False, True))
        super().send_offsets_to_transaction(positions, group_metadata, timeout)


@pytest.mark.smoke
def test_unacked_inputs_at_a_clean_stop_are_read_again(world: RealWorld) -> None:
    hold = Hold("a", "c")
    messages, executed = alone(builder := world.builder(), hold)
    for word in "abcd":
        messages.add(word)
    with world.run(builder.build()) as running:
        running.eventually(lambda: len(messages.acked) == 2, "those acked that are not held")
        running.runners["bolt"].stop()
        running.threads["bolt"].join()
        assert running.committed("bolt") == {0: 0}
        hold.held.clear()
        running.start("bolt")
        running.eventually(lambda: executed.words == [*"abcdac"], "what is not acked to be read again")
        messages.add("release")
        running.eventually(lambda: len(messages.acked) == 5, "all acked")
        running.eventually(lambda: running.has_committed_all("bolt"), "all committed")
    assert sorted(messages.acked_ids) == [*"abcd", "release"]
    assert not messages.failed


def test_five_rejected_transactions_end_the_process(world: RealWorld) -> None:
    def enlarge(tuple_: Tuple, collector: OutputCollector) -> None:
        collector.emit((random.randbytes(2_000).hex(), 0), anchors=tuple_)
        collector.ack(tuple_)

    builder = world.builder(guarantee="exactly_once")
    messages, _, _ = line(builder, enlarge)
    topology = builder.build()
    topic = tuples_topic(topology.name, "two")
    with world.run(topology) as running:
        running.cluster.set_config(topic, "max.message.bytes", "500")
        messages.add("large", message_id=None)
        message = running.threads["one"].wait_for_error()
    assert "one could not commit 5 times in a row: " in message
    assert f"a record for {topic}[0] was not delivered: Broker: Message size too large" in message


def commit(sink: TransactionalSink, consumer: Consumer, topic: str) -> None:
    sink.commit([TopicPartition(topic, 0, 0)], consumer.consumer_group_metadata())


def test_a_successor_aborts_the_open_transaction_at_once_and_a_zombie_is_fenced(world: RealWorld) -> None:
    builder = world.builder(guarantee="exactly_once")
    line(builder, copy)
    topology = builder.build()
    cluster = world.cluster(topology)
    inbox, topic = (tuples_topic(topology.name, bolt) for bolt in ("one", "two"))
    # Longer than the test waits.
    kafka = {**cluster.bootstrap, "transaction.timeout.ms": 600_000}
    consumer = Consumer({**cluster.bootstrap, "group.id": f"{topology.name}.one"})
    consumer.subscribe([inbox])
    eventually(lambda: consumer.poll(0.1) is None and consumer.assignment(), "the task")
    sinks: list[TransactionalSink] = []
    try:
        for sent in (b"zombie", b"successor"):
            sinks.append(TransactionalSink(kafka, topology.name, "one", "slot"))
            sinks[-1].produce(topic, 0, None, sent, [])
        commit(sinks[1], consumer, inbox)
        # A transaction that stayed open would hold this record back.
        eventually(lambda: [record.value() for record in cluster.records(topic)] == [b"successor"], "the committed one")
        sinks[0].produce(topic, 0, None, b"late", [])
        with pytest.raises(RolledBackError, match="one was fenced"):
            commit(sinks[0], consumer, inbox)
        assert [record.value() for record in cluster.records(topic)] == [b"successor"]
    finally:
        for sink in sinks:
            sink.close()
        consumer.close()


@pytest.mark.parametrize("guarantee", ["at_least_once", "at_most_once", "exactly_once"])
def test_a_kafka_bolt_writes_under_the_guarantee(
    world: RealWorld, monkeypatch: pytest.MonkeyPatch, guarantee: Guarantee
) -> None:
    """With two aborted transactions, which are invisible to readers of committed records, and done again."""
    monkeypatch.setattr("kafka_clients.producer.Producer", Refused)
    monkeypatch.setattr(Refused, "refusals", 2)
    builder = world.builder(guarantee=guarantee, message_timeout=120, ack_partitions=2)
    messages = Messages()
    builder.set_spout("spout", partial(MessageSpout, messages))
    target = f"results-{uuid.uuid4().hex}"
    builder.set_bolt("publish", lambda: KafkaBolt(target, key="word", value=["word"])).shuffle_grouping("spout")
    add_numbers(messages, 0, 200)
    topology = builder.build()
    create_topics(world.cluster(topology).bootstrap, [NewTopic(target, 3, 1)])
    with world.run(topology) as running:

        def written() -> Counter[bytes | None]:
            return Counter(record.key for record in running.records(target))

        running.eventually(lambda: len(written()) == 200, "every result written")
        if guarantee != "at_most_once":
            running.eventually(lambda: len(messages.acked) == 200, "every message acked")
            running.eventually(lambda: running.has_committed_all("publish"), "all committed")
        assert set(written().values()) == {1}
        assert running.stats("publish").rollbacks == (2 if guarantee == "exactly_once" else 0)
        by_partition: dict[int, set[bytes | None]] = {}
        for record in running.records(target):
            by_partition.setdefault(record.partition, set()).add(record.key)
    # As Java's clients do: murmur2 of "0", "1" and "2" modulo 3.
    assert [next(p for p, keys in by_partition.items() if key in keys) for key in (b"0", b"1", b"2")] == [2, 0, 2]
