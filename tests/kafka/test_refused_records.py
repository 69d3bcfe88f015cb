"""Records that Kafka or its client refuses: too large ones, as in the testing kit, and those for missing topics."""

import random
import uuid
from functools import partial
from typing import Any, Final

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import NewTopic

from spout_sdk import FailReason, KafkaBolt, Tuple
from spout_sdk.kafka.kafka_settings import ack_producer_settings, tuple_producer_settings
from spout_sdk.kafka.kafka_sink import KafkaSink
from spout_sdk.testing import MemoryBroker
from spout_sdk.testing.clients import MemoryProducer
from tests.contract.components import Messages, MessageSpout
from tests.contract.real import RealWorld
from tests.kafka.sdk_rig import records
from tests.topics import create_topics
from tests.waiting import eventually
from tuple_tree.manifest import Guarantee
from tuple_tree.topics import TopicSpec

KEY, HEADERS = b"key", [("name", b"value"), ("empty", b""), ("none", None)]
OF_CLIENT: Final = 1_000_000 - 36 - len(KEY) - len("namevalueemptynone") - 6
"""Bytes of the largest value that the producer of tuples takes: each part of a header has a byte for its length."""
OF_BROKER: Final = 1_048_588 - 61 - 3 - 3 - (1 + len(KEY)) - 3 - 1 - len("namevalueemptynone") - 6
"""Bytes of the largest incompressible value that a broker takes."""


def results(producer: Any, topic: str, values: list[bytes]) -> list[bool]:
    """Whether each value was delivered."""
    delivered: dict[int, bool] = {}
    for number, value in enumerate(values):

        def report(error: object, _message: object, number: int = number) -> None:
            delivered[number] = error is None

        try:
            producer.produce(topic, value, KEY, 0, report, 0, 0, HEADERS)
        except KafkaException:
            delivered[number] = False
        producer.flush(30)
    return [delivered.get(number, True) for number in range(len(values))]  # some producers report failures only


def test_the_kit_refuses_the_sizes_that_the_client_and_the_broker_refuse(bootstrap_servers: str) -> None:
    topic, kafka = f"sizes-{uuid.uuid4().hex}", {"bootstrap.servers": bootstrap_servers}
    create_topics(kafka, [NewTopic(topic, 1, 1)])
    broker = MemoryBroker([TopicSpec(topic, 1, {})], lambda: 0)
    noise = random.Random(1).randbytes
    values = [noise(OF_CLIENT), noise(OF_CLIENT + 1), noise(OF_BROKER), noise(OF_BROKER + 1), bytes(3 * OF_BROKER)]
    for settings, expected in (
        (tuple_producer_settings(kafka), [True, False, False, False, False]),
        (ack_producer_settings(kafka), [True, True, True, False, True]),
    ):
        assert results(Producer(settings), topic, values) == expected
        assert results(MemoryProducer(broker, settings), topic, values) == expected


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_a_record_for_a_topic_that_does_not_exist_fails_its_tuple(world: RealWorld, guarantee: Guarantee) -> None:
    builder, target = world.builder(guarantee=guarantee, ack_partitions=1), f"results-{uuid.uuid4().hex}"

    def topic(tuple_: Tuple) -> Any:
        return {"missing": f"{target}-missing", "none": None}.get(tuple_["word"], target)

    messages = Messages()
    builder.set_spout("spout", partial(MessageSpout, messages))
    builder.set_bolt("publish", lambda: KafkaBolt(topic, value=["word"])).shuffle_grouping("spout")
    topology = builder.build()
    create_topics(world.cluster(topology).bootstrap, [NewTopic(target, 1, 1)])
    # By default it is refused after five seconds.
    with world.run(topology, None, **{"topic.metadata.propagation.max.ms": 100}) as running:
        for word in ("good", "missing", "none"):
            messages.add(word)
        running.eventually(lambda: len(messages.failed) == 2 and messages.acked_ids == ["good"], "an outcome of each")
        assert len(running.records(target)) == 1
    failures = {message_id: failure for _, message_id, failure in messages.failed}
    assert {failure.reason for failure in failures.values()} == {FailReason.FAILED}
    assert failures["missing"].message.startswith(f"a record for topic {target}-missing was not delivered: ")
    assert "Unknown topic" in failures["missing"].message
    assert failures["none"].message.startswith("TypeError: topic= of a KafkaBolt returned None: return the name")


LIMITED: Final[dict[str, Any]] = {"max.message.bytes": "20000"}


@pytest.mark.parametrize(
    ("config", "keys", "odd_value"),
    [
        (LIMITED, None, random.Random(2).randbytes(30_000)),
        ({"cleanup.policy": "compact"}, [b"%d" % number if number != 50 else None for number in range(100)], b"no key"),
    ],
    ids=["too large", "without the key that compaction needs"],
)
def test_a_record_that_the_broker_refuses_is_refused_alone(
    bootstrap_servers: str, config: dict[str, str], keys: list[bytes | None] | None, odd_value: bytes
) -> None:
    """Others in its batch, which is refused with it, are written once; small records may be too large together, too."""
    topic, kafka = f"refused-{uuid.uuid4().hex}", {"bootstrap.servers": bootstrap_servers}
    create_topics(kafka, [NewTopic(topic, 1, 1, config=config)])
    values = [random.Random(number).randbytes(1_000) if number != 50 else odd_value for number in range(100)]
    reports: dict[int, Any] = {}
    sink = KafkaSink(kafka)
    sink.send_records(topic, keys, values, None, lambda at, error, _message: reports.update({at: error}))
    eventually(lambda: not sink.flush(1) and len(reports) == 100, "a report of each record")
    assert [at for at, error in reports.items() if error is not None] == [50]
    written = [record.value() or b"" for record in records(kafka, topic)]
    assert sorted(written) == sorted(values[:50] + values[51:])
