"""A client on a broker in memory: what ends a call, and what reading does when it is held up."""

import asyncio
import json
import random
import threading
from collections.abc import Callable, Coroutine
from typing import Any
from unittest.mock import Mock

import pytest

from spout_sdk import BasicBolt, KafkaSpout, RetryPolicy, TopologyBuilder
from spout_sdk.client import Client
from spout_sdk.client.calls import Answered
from spout_sdk.client.reading import Batch, Reading
from spout_sdk.client.target import Target
from spout_sdk.errors import (
    ClientClosedError,
    ClientError,
    DeadLetterError,
    NotDeliveredError,
    OutcomePendingError,
    SpoutSdkError,
    TooManyCallsError,
    TopicsError,
)
from spout_sdk.testing import MemoryBroker, SimulatedCluster
from spout_sdk.testing.clients import MemoryClients
from tests.waiting import eventually
from tuple_tree.answer_records import kind_header, tree_key
from tuple_tree.outcome_records import OutcomesOf
from tuple_tree.positions import topic_key
from tuple_tree.topics import TopicSpec


class Upper(BasicBolt):
    answers = True

    def execute(self, tuple_: Any, collector: Any) -> None:
        if tuple_["value"] == "bad":
            raise ValueError("bad")
        collector.answer(tuple_["value"].upper())


def cluster() -> SimulatedCluster:
    builder = TopologyBuilder("t", ack_partitions=2)
    builder.set_spout("orders", KafkaSpout("orders", retry=RetryPolicy(max_retries=0)))
    builder.set_bolt("upper", Upper).shuffle_grouping("orders")
    return SimulatedCluster(builder.build())


def client_of(running: SimulatedCluster, **more: Any) -> Client:
    clients = MemoryClients(running.broker, range(2), room=10**9)
    return Client(running.topology, {**clients.settings, "bootstrap.servers": "memory"}, **more)


def plays(scenario: Callable[[SimulatedCluster], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """A test that runs a scenario with a cluster of its own."""

    def test() -> None:
        with cluster() as running:
            asyncio.run(scenario(running))

    return test


async def worked(running: SimulatedCluster, *calls: "asyncio.Task[Any]") -> list[Any]:
    """Waits until the messages of calls are sent, lets the cluster work, and returns their outcomes or exceptions."""
    sent = running.broker.end("orders", 0) + len(calls)
    await asyncio.to_thread(eventually, lambda: running.broker.end("orders", 0) >= sent, "the messages")
    running.run_until_idle()
    return await asyncio.gather(*calls, return_exceptions=True)


@plays
async def test_calls_return_answers_or_raise_dead_letters(running: SimulatedCluster) -> None:
    async with client_of(running) as client:
        calls = [asyncio.create_task(client.process(text, key=b"k")) for text in ("a", "bad", "b")]
        first, dead, last = await worked(running, *calls)
        assert (first.answer, last.answer, first.offset, last.offset) == ("A", "B", 0, 2)
        assert isinstance(dead, DeadLetterError)
        assert "offset 1 has become a dead letter after 1 attempt," in str(dead)
        assert (client.open_calls, client.failure) == (0, None)
        with pytest.raises(TypeError, match=r"json\.dumps"):
            await client.process({"a": 1})  # type: ignore[arg-type]
        with pytest.raises(NotDeliveredError, match="not delivered to topic orders"):
            await client.process(random.Random(1).randbytes(2_000_000))
        assert (client.open_calls, client.is_full) == (0, False)


@plays
async def test_a_call_that_times_out_has_the_position_of_its_message_and_gives_its_slot_back(
    running: SimulatedCluster,
) -> None:
    async with client_of(running, max_open=1) as client:
        # In this order: the first call has the only slot.
        calls = client.process("a", timeout=0.5), client.process("not sent", timeout=0.05)
        pending, refused = await asyncio.gather(*calls, return_exceptions=True)
        assert isinstance(refused, TooManyCallsError)
        assert "max_open of the Client allows, 1," in str(refused)
        assert isinstance(pending, OutcomePendingError)
        assert (pending.topic, pending.partition, pending.offset) == ("orders", 0, 0)
        (answered,) = await worked(running, asyncio.create_task(client.process("b")))
        assert answered.answer == "B", "the outcome of the first call is not taken for it"
        assert [record.value() for record in running.records("orders")] == [b"a", b"b"]


@plays
async def test_a_client_that_is_closed_ends_its_calls(running: SimulatedCluster) -> None:
    client = client_of(running)
    with pytest.raises(ClientClosedError, match="is not open"):
        await client.process("early")
    async with client:
        waiting, cancelled = (asyncio.create_task(client.process(text)) for text in "ab")
        await asyncio.to_thread(eventually, lambda: len(client._calls) == 2, "both reports")
        cancelled.cancel()
    with pytest.raises(ClientClosedError, match=r"orders\[0\] offset 0 is still being processed"):
        await waiting
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    with pytest.raises(ClientClosedError):
        await client.process("late")


@plays
async def test_an_error_of_reading_ends_the_client_and_its_calls(running: SimulatedCluster) -> None:
    async with client_of(running) as client:
        waiting = asyncio.create_task(client.process("a"))
        await asyncio.to_thread(eventually, lambda: running.broker.end("orders", 0), "the message")
        broken = TopicsError("t.answers", "is gone")
        client._reading._records = Mock(decode=Mock(side_effect=broken))
        running.run_until_idle()
        with pytest.raises(ClientClosedError, match=r"t\.answers is gone"):
            await waiting
        assert client.failure is broken is await client.wait_failed()
        with pytest.raises(ClientClosedError):
            await client.process("b")


@plays
async def test_what_a_client_cannot_begin_with(running: SimulatedCluster) -> None:
    builder = TopologyBuilder("t")
    builder.set_spout("orders", KafkaSpout("orders"))
    settings = {**MemoryClients(running.broker, range(2)).settings, "bootstrap.servers": "memory"}
    clients = client_of(running, spout="upper"), client_of(running, topic="others"), Client(builder.build(), settings)
    for client, message in zip(clients, ("spout", "others", "outcomes=TOPIC"), strict=True):
        with pytest.raises(ClientError, match=message):
            async with client:
                pass
    with pytest.raises(SpoutSdkError, match=r"bootstrap\.servers"):
        Client(running.topology, {})


OWN = OutcomesOf("t", "orders", is_alone=True)
TARGET = Target(OWN, "orders", "t.answers", True, "json", 2, topic_key("orders"))


class Answers:
    """A topic of answers, and a reading of it whose batches wait for the test."""

    def __init__(self) -> None:
        self.broker = MemoryBroker([TopicSpec("t.answers", 2), TopicSpec("orders", 1)], lambda: 0)
        self.batches: list[tuple[Batch, Callable[[], None]]] = []
        self.failed: list[Exception] = []
        kafka = MemoryClients(self.broker, range(2), room=10**9).settings
        self.reading = Reading(kafka, TARGET, lambda *batch: self.batches.append(batch), self.failed.append)

    def write(self, number: int) -> None:
        value, headers = json.dumps(number).encode(), [kind_header("answer")]
        self.broker.append("t.answers", number % 2, tree_key(number), value, [*headers])

    def read(self) -> list[int]:
        return [record.root for batch, _ in self.batches for record in batch if isinstance(record, Answered)]


def test_a_batch_is_read_when_the_one_before_is_taken_and_a_stop_does_not_wait_for_it() -> None:
    answers = Answers()
    answers.write(0)
    answers.reading.start()
    answers.write(1)
    eventually(lambda: answers.read() == [1], "what was written since the start")
    answers.write(2)
    eventually(lambda: answers.reading._tail.positions["t.answers", 0] == 2, "a poll")
    assert answers.read() == [1], "the first batch is not taken"
    answers.batches[0][1]()
    eventually(lambda: answers.read() == [1, 2], "the next batch")
    answers.write(3)
    answers.reading.close()
    assert answers.failed == []


def test_another_reader_continues_where_one_has_lost_its_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    lost, opened = threading.Event(), list[object]()

    class Monitor:
        def __init__(self) -> None:
            opened.append(self)
            self.settings: dict[str, Any] = {}

        @property
        def lost(self) -> bool:
            return lost.is_set() and opened[0] is self

    monkeypatch.setattr("kafka_clients.topic_tail.BrokerMonitor", Monitor)
    answers = Answers()
    answers.reading.start()
    answers.write(0)
    eventually(lambda: answers.read() == [0], "the first answer")
    answers.batches[0][1]()
    lost.set()
    eventually(lambda: len(opened) == 2, "another reader")
    answers.write(1)
    answers.write(2)
    eventually(lambda: answers.batches[-1][1]() or sorted(answers.read()) == [0, 1, 2], "each answer once")
    answers.reading.close()


def test_a_source_topic_that_was_created_again_ends_a_client_that_reads_outcomes_alone() -> None:
    broker, failed = MemoryBroker([TopicSpec("done", 1), TopicSpec("orders", 1)], lambda: 0), list[Exception]()
    earlier = Target(OWN, "orders", "done", False, "json", 2, topic_key("the id of an earlier topic"))
    reading = Reading(MemoryClients(broker, [0], room=10**9).settings, earlier, lambda *_: None, failed.append)
    reading.start()
    eventually(lambda: failed, "the error")
    reading.close()
    assert "topic orders was deleted, or deleted and created again" in str(failed[0])


def test_a_topic_that_does_not_exist_is_an_error_at_the_start() -> None:
    broker = MemoryBroker([TopicSpec("orders", 1)], lambda: 0)
    kafka = MemoryClients(broker, range(2)).settings
    with pytest.raises(TopicsError, match=r"t\.answers does not exist, and the client reads outcomes from it"):
        Reading(kafka, TARGET, lambda *_: None, lambda _: None).start()
