"""Delivery reports of a producer, and what confluent-kafka makes of an error after which it cannot go on."""

from collections.abc import Callable

from confluent_kafka import KafkaError, KafkaException


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
