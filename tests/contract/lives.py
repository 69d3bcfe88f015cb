"""Processes that die at a chosen step: their clients raise `Killed`, and have no further effect on the broker.

Clients belong to the life of the thread that creates them. The classes here are put in the place of those of
confluent-kafka, or of the testing kit.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Literal

from tuple_tree.messages import decode_ack_batch

Step = Literal[
    "executes",
    "has emitted",
    "sends tuples",
    "writes a record",
    "writes its state",
    "sends acks",
    "sends notices",
    "writes an answer",
    "writes an outcome",
    "commits",
    "has committed",
]
"""Where a process can die: before an input is executed, and after its tuples are emitted; before a record is sent to
such a topic; before offsets are committed, in a transaction or without; and after the commit."""


class Killed(SystemExit):
    """Raised in the place of every effect of a process that is dead."""


class Life:
    """One process of a component.

    Attributes:
        component: its name, or `acker`.
        is_dead: whether it has been killed.
        clients: of this process.
    """

    def __init__(self, component: str) -> None:
        self.component = component
        self.is_dead = False
        self.clients: list[Any] = []
        self._runs = threading.Event()
        self._runs.set()
        self._dies_at: Step | None = None
        self._passes = 0

    def arm(self, step: Step, passes: int) -> None:
        """Has the process die at a step, after it was there some times."""
        self._dies_at, self._passes = step, passes

    def at(self, step: Step | None) -> None:
        """Raises `Killed` if the process is dead, or dies at this step."""
        if step is not None and step == self._dies_at and not self.is_dead:
            self._passes -= 1
            self.is_dead = self._passes < 0
        if self.is_dead:
            raise Killed(f"{self.component} is killed at {step}")

    def reads(self) -> None:
        """Waits while the process is paused: not within a call whose time is limited."""
        self._runs.wait()
        self.at(None)

    def pause(self) -> None:
        self._runs.clear()

    def resume(self) -> None:
        self._runs.set()


class _Lives(threading.local):
    current: Life | None = None


_lives = _Lives()


def at(step: Step) -> None:
    """A step in the code of a component."""
    if _lives.current is not None:
        _lives.current.at(step)


@contextmanager
def living(life: Life | None) -> Iterator[None]:
    """Clients that this thread creates in the block belong to a life."""
    before, _lives.current = _lives.current, life
    try:
        yield
    finally:
        _lives.current = before


def mortal_producer(kind: type[Any]) -> type[Any]:
    """A class of producers that die with their process."""

    class MortalProducer(kind):  # type: ignore[misc]
        def __init__(self, *settings: Any) -> None:
            super().__init__(*settings)
            self.life = _lives.current or Life("none")
            self.life.clients.append(self)

        def produce(self, topic: str, value: Any = None, *rest: Any, **named: Any) -> None:
            self.life.at(_step_of(topic, value))
            super().produce(topic, value, *rest, **named)

        def poll(self, *timeout: Any) -> Any:
            self.life.at(None)
            return super().poll(*timeout)

        def flush(self, *timeout: Any) -> Any:
            self.life.at(None)
            return super().flush(*timeout)

        def init_transactions(self, *timeout: Any) -> None:
            self.life.at(None)
            super().init_transactions(*timeout)

        def send_offsets_to_transaction(self, *offsets: Any) -> None:
            self.life.at("commits")
            super().send_offsets_to_transaction(*offsets)

        def commit_transaction(self, *timeout: Any) -> None:
            self.life.at(None)
            super().commit_transaction(*timeout)
            self.life.at("has committed")

        def abort_transaction(self, *timeout: Any) -> None:
            self.life.at(None)
            super().abort_transaction(*timeout)

        def disconnect(self) -> None:
            """Drops what was not sent."""
            with suppress(Exception, Killed):
                super().purge()

    return MortalProducer


def mortal_consumer(kind: type[Any]) -> type[Any]:
    """A class of consumers that die with their process."""

    class MortalConsumer(kind):  # type: ignore[misc]
        def __init__(self, *settings: Any) -> None:
            super().__init__(*settings)
            self.life = _lives.current or Life("none")
            self.life.clients.append(self)

        def poll(self, *timeout: Any) -> Any:
            self.life.reads()
            return super().poll(*timeout)

        def consume(self, *limits: Any) -> Any:
            self.life.reads()
            return super().consume(*limits)

        def commit(self, *message: Any, **named: Any) -> Any:
            self.life.at("commits")
            done = super().commit(*message, **named)
            self.life.at("has committed")
            return done

        def close(self) -> None:
            self.life.at(None)
            super().close()

        def disconnect(self) -> None:
            """Ends its connections; a dynamic member leaves its group."""
            with suppress(Exception, Killed):
                super().close()

    return MortalConsumer


_TOPICS: dict[str, Step] = {
    "tuples": "sends tuples",
    "state": "writes its state",
    "notices": "sends notices",
    "answers": "writes an answer",
}


def _step_of(topic: str, value: bytes | None) -> Step | None:
    parts = topic.split(".")
    if len(parts) == 1:
        return "writes an outcome" if topic.endswith("-outcomes") else "writes a record"
    if parts[1] == "acks":
        # The batch that opens a session is sent before anything is read.
        return "sends acks" if len(decode_ack_batch(value or b"")) else None
    return _TOPICS.get(parts[1])
