"""Topics that are deleted, or deleted and recreated, while they are in use.

librdkafka reports neither to a consumer, which would wait for ever; and offsets of a topic mean nothing in another one
of the same name. So a process compares the ids of its topics now and then, without waiting for the answers.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Final

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, TopicDescription

WATCH_SECONDS: Final = 10.0  # between two requests
_ANSWER_SECONDS: Final = 8.0
_SURE: Final = 2  # answers in a row that it takes: one broker may know less than the others for a moment
_REMEDY: Final = (
    "stop whatever runs of the topology, create its topics with acker topics create MODULE:TOPOLOGY, and start it again"
)

Descriptions = Mapping[str, "Future[TopicDescription]"]


def describe_topics(admin: AdminClient, topics: Sequence[str]) -> Descriptions:
    """Requests the descriptions of topics, and does not wait for them."""
    # librdkafka rejects an empty collection.
    return admin.describe_topics(TopicCollection([*topics]), request_timeout=_ANSWER_SECONDS) if topics else {}


def topic_id_of(answer: "Future[TopicDescription]") -> str | None:
    """The id of a topic, which no other one of its name has; None if it does not exist, "" if there was no answer."""
    try:
        return str(answer.result().topic_id)
    except KafkaException as error:
        return None if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART else ""


class TopicWatch:
    """Compares the ids of topics, and never waits for an answer."""

    def __init__(self, admin: AdminClient, topics: Sequence[str]) -> None:
        self._admin = admin
        self._topics = topics
        self._asked: Descriptions = {}
        self._ask_at = 0.0
        self.unanswered_at = 0.0  # when a request was last found to have no answer, in seconds; 0 if each had one
        self.answers = 0  # how many had one
        self._known: dict[str, str] = {}
        self._odd: dict[str, int] = {}

    def look(self, now: float) -> tuple[str, str] | None:
        """Sends a request if it is due, and reads the answers; returns a topic that has changed, and how, or None."""
        if self._asked:
            if not all(answer.done() for answer in self._asked.values()):
                return None
            answers, self._asked = self._asked, {}
            for topic, answer in answers.items():
                topic_id = topic_id_of(answer)
                if topic_id == "":
                    self.unanswered_at = now
                    continue
                self.answers += 1
                if problem := self._compare(topic, topic_id):
                    return topic, problem
        elif now >= self._ask_at:
            self._ask_at = now + WATCH_SECONDS
            self._asked = describe_topics(self._admin, self._topics)
            self.answers += not self._asked  # without topics there is nothing to answer
        return None

    def _compare(self, topic: str, topic_id: str | None) -> str:
        if topic_id is not None and topic_id == self._known.setdefault(topic, topic_id):
            self._odd.pop(topic, None)
            return ""
        self._odd[topic] = self._odd.get(topic, 0) + 1
        if self._odd[topic] < _SURE:
            return ""
        return f"was deleted{'' if topic_id is None else ', and made anew'}: {_REMEDY}"
