"""A replay that another put an end to says so, wherever it meets that."""

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from inspection.dead_letters import DeadLetter, DeadLettersError, Replayer


class Fenced:
    """Refuses records by a code that does not say why; its reports do."""

    def __init__(self, _settings: dict[str, Any]) -> None: ...

    def init_transactions(self, _seconds: float) -> None: ...

    def begin_transaction(self) -> None: ...

    def produce(self, *_: Any, **__: Any) -> None:
        raise KafkaException(KafkaError(KafkaError._FATAL))

    def poll(self, _seconds: float) -> int:
        raise KafkaException(KafkaError(KafkaError._FENCED, "fenced", fatal=True))


def test_where_a_record_is_the_first_to_meet_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inspection.dead_letters.replay.Producer", Fenced)
    monkeypatch.setattr(Replayer, "_end", lambda *_: 0)
    letter = DeadLetter(0, 0, None, b"x", (), "words.tuples.b", 0, 0, "exception", "no", "b/0")
    with pytest.raises(DeadLettersError, match="another replay of words has begun and put an end to this one"):
        list(Replayer({}, "words").replay([letter]))
