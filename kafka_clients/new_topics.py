"""Creating topics."""

import time
from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from kafka_clients.access import OPERATOR, remedy
from kafka_clients.background import answer_of
from kafka_clients.errors import REFUSED, TopicsError

_KNOWN_SECONDS: Final = 30.0
_LOOK_SECONDS: Final = 0.05


class Topics(Protocol):
    """The part of a `Catalogue` that creating topics needs."""

    admin: AdminClient
    contact_s: float

    def topics(self) -> Mapping[str, Any]: ...


def create(admin: AdminClient, topics: Iterable[NewTopic], contact_s: float) -> None:
    """Creates topics; one that exists by now is left as it is. Raises `TopicsError`."""
    new = [*topics]
    timeouts = {"operation_timeout": contact_s, "request_timeout": 3 * contact_s}
    for name, created in admin.create_topics(new, **timeouts).items() if new else ():
        try:
            answer_of(created)
        except KafkaException as error:
            if error.args[0].code() in REFUSED:
                raise TopicsError(name, f"may not be created by this user: {remedy(OPERATOR)}") from error
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise TopicsError(name, f"could not be created: {error.args[0].str()}") from error


def create_missing(catalogue: Topics, partitions: Mapping[str, int], replication_factor: int = -1) -> list[str]:
    """Creates topics (name → partitions) that do not exist, with the brokers' settings, and returns their names.

    Raises `TopicsError` if one cannot be created.
    """
    existing = catalogue.topics()
    missing = [name for name in partitions if name not in existing]
    new = (NewTopic(name, partitions[name], replication_factor=replication_factor) for name in missing)
    create(catalogue.admin, new, catalogue.contact_s)
    # A broker learns of a topic some time after it is created, and a `KafkaBolt` does not start without its topic.
    deadline = time.monotonic() + _KNOWN_SECONDS
    while unknown := set(missing) - catalogue.topics().keys() if missing else ():
        if time.monotonic() > deadline:
            raise TopicsError(min(unknown), f"was created, and the broker does not know it after {_KNOWN_SECONDS:g} s")
        time.sleep(_LOOK_SECONDS)
    return missing
