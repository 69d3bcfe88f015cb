"""Clients of a broker in memory that read as the commands that inspect do: by time, and with the ends of partitions."""

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from functools import partial
from types import SimpleNamespace
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from kafka_clients.client_settings import CLIENT_CLASSES
from kafka_clients.librdkafka_bugs import forgettable
from spout_sdk.testing import MemoryBroker
from spout_sdk.testing.clients import MemoryAdmin, MemoryClients, MemoryConsumer
from spout_sdk.testing.tasks import LIMITLESS


class ReadingConsumer(MemoryConsumer):
    """A consumer that finds offsets by time."""

    def offsets_for_times(self, wanted: Iterable[TopicPartition], **_timeout: float) -> list[TopicPartition]:
        found = []
        for each in wanted:
            records = self._broker.fetch(each.topic, each.partition, 0, LIMITLESS)
            late = (record.offset() for record in records if record.timestamp()[1] >= each.offset)
            found.append(TopicPartition(each.topic, each.partition, next(late, -1)))
        return found


class ReadingAdmin(MemoryAdmin):
    """An admin client that lists offsets."""

    def list_offsets(self, wanted: Mapping[TopicPartition, OffsetSpec], **_timeout: float) -> dict[Any, Any]:
        found = {}
        for at, spec in wanted.items():
            is_begin = spec is OffsetSpec.earliest()  # type: ignore[no-untyped-call]
            answer: Future[Any] = Future()
            answer.set_result(SimpleNamespace(offset=0 if is_begin else self._broker.end(at.topic, at.partition)))
            found[at] = answer
        return found


def reading_settings(broker: MemoryBroker) -> dict[str, Any]:
    """The settings of such clients."""
    clients = MemoryClients(broker, [0], room=LIMITLESS)
    settings = clients.settings
    classes = {
        **settings[CLIENT_CLASSES],
        Consumer: partial(ReadingConsumer, clients),
        forgettable(Consumer): partial(ReadingConsumer, clients),
        forgettable(AdminClient): partial(ReadingAdmin, broker),
    }
    return {**settings, CLIENT_CLASSES: classes}
