"""Commits of offsets that are waited for."""

import time
from collections.abc import Sequence
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from kafka_clients.bounded_calls import HANG_S, bounded

_PAUSE_SECONDS: Final = 0.05
_PASSING: Final = frozenset(
    {
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.NOT_COORDINATOR,
    }
)


def commit_now(consumer: Consumer, offsets: Sequence[TopicPartition], what: str, seconds: float) -> KafkaError | None:
    """Commits and waits; returns why it is not known that all are committed, or None.

    While other processes join or leave, a commit may carry the group's last generation instead of its new one. The
    partitions are still ours then, since a cooperative group moves none that was not revoked: once the client has the
    new generation, the same commit is accepted.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            with bounded(HANG_S, f"commit() for {what}"):
                answers = consumer.commit(offsets=list(offsets), asynchronous=False) or ()
            error = next((answer.error for answer in answers if answer.error is not None), None)
        except KafkaException as raised:
            error = raised.args[0]
        if error is None or error.code() not in _PASSING or time.monotonic() >= deadline:
            return error
        time.sleep(_PAUSE_SECONDS)
