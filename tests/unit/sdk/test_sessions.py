"""A session is open when its ack batches are there, whatever becomes of tuples meanwhile."""

from typing import Any

import pytest

from spout_sdk.counters import Counters
from spout_sdk.errors import BrokerError
from spout_sdk.kafka_sink import KafkaSink
from spout_sdk.sessions import open_sessions


class Half:
    """Delivers ack batches, or tuples, and nothing else."""

    delivers_acks = True

    def __init__(self, settings: dict[str, Any]) -> None:
        # Only the producer of tuples has one callback for all records.
        self._delivers = ("on_delivery" not in settings) == self.delivers_acks

    def produce(self, *_: Any) -> None: ...

    def flush(self, _seconds: float) -> int:
        return 0 if self._delivers else 1


class Writer:
    failure = None

    def __init__(self) -> None:
        self.opened = 0

    def open_session(self) -> None:
        self.opened += 1


def test_tuples_that_wait_for_a_leader_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spout_sdk.kafka_sink.Producer", Half)
    sink, writer = KafkaSink({}, Counters()), Writer()
    assert sink.flush(0) == 1
    open_sessions(sink, [writer])
    assert writer.opened == 1


def test_ack_batches_that_are_not_delivered_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spout_sdk.kafka_sink.Producer", Half)
    monkeypatch.setattr(Half, "delivers_acks", False)
    with pytest.raises(BrokerError, match="the sessions of 1 tasks could not be opened: 1 ack batches were not"):
        open_sessions(KafkaSink({}, Counters()), [Writer()])
