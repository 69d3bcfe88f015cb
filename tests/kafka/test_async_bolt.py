"""A bolt in coroutines on Kafka: its inputs end in any order, with one output each."""

import asyncio
import random
from collections import Counter
from functools import partial
from typing import ClassVar

import pytest

from spout_sdk import AsyncBolt, AsyncCollector, BasicBolt, BasicCollector, Tuple
from tests.contract.components import STREAMS, Messages, MessageSpout, tuples_in
from tests.contract.real import RealWorld
from tests.kafka.test_guarantees import Refused
from tuple_tree.manifest import Guarantee
from tuple_tree.names import stats_topic, tuples_topic

MESSAGES = 500


class Request(AsyncBolt):
    streams = STREAMS

    async def execute_async(self, tuple_: Tuple, collector: AsyncCollector) -> None:
        # The request that the bolt waits for: requests end in another order than they began.
        await asyncio.sleep(random.uniform(0, 0.05))
        collector.emit((tuple_["word"], 1))


class Keep(BasicBolt):
    """The test reads its inbox."""

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None: ...


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_many_inputs_at_a_time(world: RealWorld, monkeypatch: pytest.MonkeyPatch, guarantee: Guarantee) -> None:
    """With `exactly_once` although transactions are aborted, and the task moves while it executes its inputs."""
    monkeypatch.setattr("kafka_clients.producer.Producer", Refused)
    monkeypatch.setattr(Refused, "refusals", 2 if guarantee == "exactly_once" else 0)
    builder = world.builder(guarantee=guarantee, message_timeout=120, ack_partitions=2)
    messages = Messages()
    builder.set_spout("spout", partial(MessageSpout, messages))
    builder.set_bolt("request", Request).shuffle_grouping("spout")
    builder.set_bolt("keep", Keep).shuffle_grouping("request")
    for number in range(MESSAGES):
        messages.add(str(number))
    with world.run(builder.build()) as running:
        if guarantee == "exactly_once":
            running.eventually(lambda: len(messages.acked) > MESSAGES // 5, "some acked")
            running.runners["request"].stop()
            running.threads["request"].join()
            running.start("request")
        running.eventually(lambda: len(messages.acked) == MESSAGES, "all acked")
        running.eventually(lambda: running.has_committed_all("request"), "all committed")
        records = running.records(tuples_topic(running.topology.name, "keep"))
        assert running.stats("request").rollbacks == (2 if guarantee == "exactly_once" else 0)
    assert Counter(word for (word, _), _ in tuples_in(records)) == Counter(map(str, range(MESSAGES)))
    assert not messages.failed


TIMEOUT, SESSION, SECONDS = 6.0, 6.0, 32.0


class Long(AsyncBolt):
    """The first input takes long, and leaves no slot for the others."""

    concurrency = 1
    begun: ClassVar[Counter[str]] = Counter()

    async def execute_async(self, tuple_: Tuple, collector: AsyncCollector) -> None:
        self.begun[tuple_["word"]] += 1
        if tuple_["word"] == "0":
            await asyncio.sleep(SECONDS)


@pytest.mark.exhaustive
@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_a_coroutine_that_takes_longer_than_all_timeouts_is_executed_once(
    world: RealWorld, monkeypatch: pytest.MonkeyPatch, guarantee: Guarantee
) -> None:
    """Neither it nor what waits behind it times out, and statistics are published meanwhile."""
    monkeypatch.setattr(Long, "begun", Counter())
    timeout = TIMEOUT if guarantee == "at_least_once" else 25.0
    builder = world.builder(guarantee=guarantee, message_timeout=timeout, ack_partitions=2)
    messages = Messages()
    builder.set_spout("spout", partial(MessageSpout, messages))
    builder.set_bolt("long", Long).shuffle_grouping("spout")
    for number in range(20):
        messages.add(str(number))
    group = {"session.timeout.ms": int(1000 * SESSION), "max.poll.interval.ms": int(1000 * SESSION)}
    with world.run(builder.build(), **group) as running:
        running.eventually(lambda: Long.begun["0"], "the first begun")
        stats = stats_topic(running.topology.name)
        before = len(running.records(stats))
        running.let_pass(SECONDS / 2)
        for number in range(20, 40):
            messages.add(str(number))
        running.let_pass(SECONDS / 4)
        assert len(running.records(stats)) - before >= 10
        assert not messages.acked
        running.eventually(lambda: len(messages.acked) == 40, "all acked")
        running.eventually(lambda: running.has_committed_all("long"), "all committed")
    assert not messages.failed
    assert Long.begun == dict.fromkeys(map(str, range(40)), 1)
