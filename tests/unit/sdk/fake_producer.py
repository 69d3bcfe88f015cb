"""librdkafka's producer, whose errors and delivery reports the test chooses."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from confluent_kafka import Producer

from kafka_clients.client_settings import CLIENT_CLASSES


@dataclass
class FakeProducers:
    """The producers of a test; `fails` has what their methods raise, by the names of these."""

    fails: dict[str, Exception] = field(default_factory=dict)
    made: list["FakeProducer"] = field(default_factory=list)
    gate: threading.Event | None = None  # offsets of a transaction wait for it

    @property
    def settings(self) -> dict[str, Any]:
        return {CLIENT_CLASSES: {Producer: partial(FakeProducer, self)}}


class FakeProducer:
    def __init__(self, of: FakeProducers, settings: dict[str, Any]) -> None:
        self.of, self.settings = of, settings
        self.reports: list[Callable[[], object]] = []  # the next poll or flush serves them
        self.left = 0  # records that a flush does not deliver
        self.calls: list[str] = []  # but for `poll`, `flush` and `list_topics`
        of.made.append(self)

    def __getattr__(self, method: str) -> Callable[..., int]:
        return partial(self._called, method)

    def _called(self, method: str, *_: Any, **__: Any) -> int:
        if method in ("poll", "flush"):
            while self.reports:
                self.reports.pop()()
        elif method != "list_topics":
            self.calls.append(method.removesuffix("_transaction").removesuffix("_transactions"))
        if method in self.of.fails:
            raise self.of.fails[method]
        if method == "send_offsets_to_transaction" and self.of.gate is not None:
            self.of.gate.wait()
        return self.left
