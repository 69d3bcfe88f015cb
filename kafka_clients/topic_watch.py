"""Noticing that topics are deleted, or made anew, under those who use them.

Kafka's client says nothing of it to a reader, who would wait for ever; and offsets that were counted in a topic mean
nothing in another one of the same name. So whoever uses topics asks now and then whether they are still the same.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, Final

WATCH_SECONDS: Final = 10.0
"""Between two questions."""

_SURE: Final = 2
"""Answers in a row that it takes: one broker may know less than the others for a moment."""

_DO: Final = (
    "stop whatever runs of the topology, create its topics with acker topics create MODULE:TOPOLOGY, and start it again"
)


class TopicWatch:
    """Asks about topics, and never waits for an answer.

    Args:
        ask: sends a question; topic → what will hold the answer.
        identity: reads an answer: what tells a topic from others of its name; None if there is no such topic, and ""
            if there was no answer.

    Attributes:
        unanswered_at: when a question was last found to have no answer; 0 if each had one.
        answers: how many questions had one.
    """

    def __init__(
        self, ask: Callable[[], Mapping[str, Future[Any]]], identity: Callable[[Future[Any]], str | None]
    ) -> None:
        self._ask = ask
        self._identity = identity
        self._asked: Mapping[str, Future[Any]] = {}
        self._ask_at = 0.0
        self.unanswered_at = 0.0
        self.answers = 0
        self._known: dict[str, str] = {}
        self._odd: dict[str, int] = {}

    def look(self, now: float) -> tuple[str, str] | None:
        """Asks if it is time to, and hears what was answered.

        Args:
            now: seconds, rising.

        Returns:
            A topic, and what to say of it; None as long as all are what they were.
        """
        if self._asked:
            if not all(answer.done() for answer in self._asked.values()):
                return None
            answers, self._asked = self._asked, {}
            for topic, answer in answers.items():
                found = self._identity(answer)
                if found == "":
                    self.unanswered_at = now
                    continue
                self.answers += 1
                if said := self._judged(topic, found):
                    return topic, said
        elif now >= self._ask_at:
            self._ask_at = now + WATCH_SECONDS
            self._asked = self._ask()
            self.answers += not self._asked  # nothing to ask about is no silence
        return None

    def _judged(self, topic: str, found: str | None) -> str:
        if found is not None and found == self._known.setdefault(topic, found):
            self._odd.pop(topic, None)
            return ""
        self._odd[topic] = self._odd.get(topic, 0) + 1
        if self._odd[topic] < _SURE:
            return ""
        return f"was deleted{'' if found is None else ', and made anew'}: {_DO}"
