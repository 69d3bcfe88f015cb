"""Requests that are made again while their errors are retriable: a broker comes or goes, or a topic is new."""

import time
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaError, KafkaException

from kafka_clients.background import answer_of
from kafka_clients.errors import GONE

LEADERLESS: Final = frozenset(
    {
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError._NOENT,  # of an admin client that finds no leader
    }
)
"""Errors that pass: while a topic is new, or a broker comes or goes, its partitions have no leader for a moment."""
_RETRIABLE: Final = LEADERLESS | {
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
}
_PAUSE_SECONDS: Final = 0.05
# Metadata of a broker that is fenced name no broker. Two of these in a row, and a client may have lost all brokers for
# good (see `kafka_clients.librdkafka_bugs`); so they are not requested at once.
_REFRESH_SECONDS: Final = 1.0
_METADATA_SECONDS: Final = 1.0

T = TypeVar("T")
Place = tuple[str, int]  # A topic and a partition of it


def retrying(client: Any, call: Callable[[], T], seconds: float, places: Collection[Place] = ()) -> T:
    """Makes a call, and again for `seconds`, with new metadata, while it raises a retriable error; returns its result.

    A client uses the leader epochs that it has cached, and asks for new ones after seconds only. An error of a topic
    that does not exist is retriable if the brokers have all `places`: it is new, or a broker was fenced for a moment.

    Raises `KafkaException` if there is no answer in time, and for any other error.
    """
    deadline, refresh_at = time.monotonic() + seconds, 0.0
    while True:
        try:
            return call()
        except KafkaException as error:
            code, now = error.args[0].code(), time.monotonic()
            if code not in (*_RETRIABLE, *GONE) or now >= deadline:
                raise
            refresh_at = refresh_at or now + _REFRESH_SECONDS
            if code in GONE or now >= refresh_at:
                time.sleep(max(0.0, refresh_at - now))
                refresh_at = 0.0
                exist = _exist(client, places)
                if code in GONE and not (places and exist):
                    raise
            time.sleep(_PAUSE_SECONDS)


def answer_or_error(future: "Future[Any]", *codes: int) -> Any:
    """The answer to a request; the error in its place if it has one of these codes."""
    try:
        return answer_of(future)
    except KafkaException as error:
        if error.args[0].code() not in codes:
            raise
        return error.args[0]


def _exist(client: Any, places: Iterable[Place]) -> bool:
    """Whether partitions exist, by new metadata."""
    try:
        topics = client.list_topics(timeout=_METADATA_SECONDS).topics
    except KafkaException:
        return False
    return all(topic in topics and number in topics[topic].partitions for topic, number in places)
