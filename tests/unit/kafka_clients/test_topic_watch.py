"""A topic counts as deleted only after two answers in a row without it."""

from concurrent.futures import Future
from itertools import count
from types import SimpleNamespace
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection

from kafka_clients.topic_watch import WATCH_SECONDS, TopicWatch


class Brokers:
    """Answers when the test calls `answer`."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Future[Any]]] = []
        self._now = count(0, WATCH_SECONDS)
        admin: Any = self
        self.watch = TopicWatch(admin, ["t.acks", "t.tuples.b"])

    def describe_topics(self, topics: TopicCollection, request_timeout: float) -> dict[str, Future[Any]]:
        self.requests.append({"t.acks": Future(), "t.tuples.b": Future()})
        return self.requests[-1]

    @staticmethod
    def answer(future: Future[Any], topic_id: str | None) -> None:
        """None: there is no such topic; "": no answer."""
        if topic_id:
            future.set_result(SimpleNamespace(topic_id=topic_id))
        else:
            code = KafkaError.UNKNOWN_TOPIC_OR_PART if topic_id is None else KafkaError._TIMED_OUT
            future.set_exception(KafkaException(KafkaError(code)))

    def round(self, acks: str | None, tuples: str | None = "2") -> tuple[str, str] | None:
        """The result of the watch for these answers to its next request."""
        now = next(self._now)
        assert self.watch.look(now) is None
        for answer, value in zip(self.requests[-1].values(), (acks, tuples), strict=True):
            assert self.watch.look(now) is None, "half an answer"
            self.answer(answer, value)
        return self.watch.look(now)


def test_requests_are_sent_at_an_interval_and_never_block() -> None:
    brokers = Brokers()
    for now in (0.0, WATCH_SECONDS / 2, 5 * WATCH_SECONDS):
        assert brokers.watch.look(now) is None
    assert len(brokers.requests) == 1, "there is no answer yet"
    for answer in brokers.requests[0].values():
        brokers.answer(answer, "1")
    assert brokers.watch.look(5 * WATCH_SECONDS) is None
    assert brokers.watch.look(5 * WATCH_SECONDS) is None
    assert brokers.watch.look(5.5 * WATCH_SECONDS) is None
    assert len(brokers.requests) == 2


def test_the_error_about_a_deleted_topic_has_a_remedy() -> None:
    brokers = Brokers()
    assert [brokers.round("1", tuples) for tuples in ("2", None)] == [None, None]
    topic, error = brokers.round("1", None) or ("", "")
    assert topic == "t.tuples.b"
    assert error.startswith("was deleted: stop whatever runs of the topology")
    assert "acker topics create MODULE:TOPOLOGY" in error


def test_another_topic_of_the_same_name_is_not_the_same() -> None:
    brokers = Brokers()
    assert [brokers.round(acks) for acks in ("1", None)] == [None, None]
    _, error = brokers.round("3") or ("", "")
    assert error.startswith("was deleted, and made anew: ")


def test_a_topic_is_deleted_after_two_consecutive_answers_without_it() -> None:
    brokers = Brokers()
    assert [brokers.round(answer) for answer in ("1", None, "1", None, "1")] == [None] * 5
    # A missing answer is neither for nor against the topic.
    assert [brokers.round(answer) for answer in (None, "", "", "1", "", "1")] == [None] * 6
    assert brokers.round(None) is None
    assert brokers.round("") is None
    assert brokers.round(None) is not None


def test_answers_of_brokers_are_counted() -> None:
    brokers = Brokers()
    brokers.round("1")
    assert brokers.watch.answers == 2
    brokers.round("", "")
    assert brokers.watch.answers == 2
    admin: Any = brokers
    nothing = TopicWatch(admin, [])
    assert [nothing.look(now) or nothing.answers for now in (0.0, WATCH_SECONDS)] == [1, 2]
