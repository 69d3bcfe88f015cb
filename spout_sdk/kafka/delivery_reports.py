"""Delivery reports of a producer, and what confluent-kafka makes of an error after which it cannot go on."""

import logging
import time
from collections.abc import Callable
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException

from spout_sdk.statistics.counters import Counters

logger = logging.getLogger("spout_sdk.kafka")

_WARN_SECONDS: Final = 10.0


class LostTuples:
    """Counts untracked tuples that were not delivered, and logs that every ten seconds."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self._warn_at = 0.0

    def count(self, tuples: int, error: Any, message: Any) -> None:
        """So many were not delivered; the message is None if they were not even taken."""
        self._counters.undelivered += tuples
        now = time.monotonic()
        if now >= self._warn_at:
            self._warn_at = now + _WARN_SECONDS
            topic = "" if message is None else f" for {message.topic()}[{message.partition()}]"
            logger.warning(
                "%d untracked tuples%s were not delivered and are lost: %s (%d tuples so far)",
                tuples,
                topic,
                error,
                self._counters.undelivered,
            )


def served(call: Callable[[], int]) -> tuple[int, KafkaError | None]:
    """Calls a producer's `poll` or `flush`, which returns how many reports there were, or are left.

    Returns that, 0 if the producer cannot go on, and why it cannot. 1 and None after an error without a cause: nothing
    may count as delivered, and the next call raises the cause.
    """
    try:
        return call(), None
    except KafkaException as error:
        return 0, error.args[0]
    except SystemError as error:
        # The client has set the exception and called for one more report; Python names it as the cause.
        if isinstance(error.__cause__, KafkaException):
            return 0, error.__cause__.args[0]
        # It has set the exception, and lost it to a line of librdkafka's log.
        if "without setting an exception" in str(error):
            return 1, None
        raise


def ended_by(poll: Callable[[float], int], reason: KafkaError) -> KafkaError | None:
    """What put an end to a producer whose `produce` raised this, if something did."""
    # After a fatal error `produce` has a code of its own, with neither the mark nor the cause: the next poll has that.
    if reason.code() == KafkaError._FATAL:
        return served(lambda: poll(0))[1] or reason
    return reason if reason.fatal() else None
