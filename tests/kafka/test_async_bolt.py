"""A bolt in coroutines on Kafka: its inputs end in any order, with one output each."""

import asyncio
import random
from collections import Counter
from functools import partial

import pytest

from spout_sdk import AsyncBolt, AsyncCollector, BasicBolt, BasicCollector, Tuple
from tests.contract.components import STREAMS, Messages, MessageSpout, tuples_in
from tests.contract.real import RealWorld
from tests.kafka.test_guarantees import Refused
from tuple_tree.manifest import Guarantee
from tuple_tree.names import tuples_topic

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
    """With `exactly_once` although transactions are aborted, and the task moves amid its inputs."""
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
