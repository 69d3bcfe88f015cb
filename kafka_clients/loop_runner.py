"""Runs the loop of a process, of a spout, a bolt or an acker, and reports how it does."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from confluent_kafka import KafkaException

from kafka_clients.errors import AckerError, BrokerError, TopicsError
from kafka_clients.stats_publisher import StatsPublisher
from kafka_clients.topic_watch import WATCH_SECONDS, TopicWatch
from tuple_tree.errors import describe, text_of
from tuple_tree.timing import BROKERS, Stall

Stalled = tuple[float, str]
"""Seconds for which no work was done although some waits, and a description of that work."""
NOT_STALLED: Final = (0.0, "")


class Loop(ABC):
    """The work of a process, done a turn at a time by `run`, or by the testing kit."""

    @abstractmethod
    def turn(self) -> bool:
        """Reads, works and sends once; returns whether there was anything to do."""

    @abstractmethod
    def end(self) -> None:
        """Commits and gives back everything, in order, and leaves the group."""

    @abstractmethod
    def break_off(self) -> None:
        """After an exception: nothing may be committed that has not had its whole effect.

        A successor takes the place of this process in its group.
        """

    @abstractmethod
    def close(self) -> None:
        """Ends the clients."""

    @abstractmethod
    def stalls(self, now: float) -> Iterable[Stalled]:
        """Seconds without progress of each kind of work."""

    @abstractmethod
    def stats(self, stalled: Stalled = NOT_STALLED) -> Any:
        """A snapshot, which has `to_dict`; exact only in the thread of the loop."""

    def chained_stats(self) -> Sequence[Any]:
        """Snapshots of the chained bolts, which run in the tasks of the component."""
        return ()

    def run(self, stopping: Callable[[], bool]) -> None:
        """Works until the process is stopping, and ends in order; after an exception it is closed only."""
        try:
            while not stopping():
                self.turn()
            self.end()
        except Exception:
            self.break_off()
            raise
        finally:
            self.close()


class LoopRunner:
    """Runs a loop until `stop`, which calls `tick` every few milliseconds; ends it when one of its topics is deleted.

    `on_stats` is called with each snapshot every `seconds` of the clock and at the end, never in two threads at a time.
    """

    def __init__(self, on_stats: Callable[[Any], object], clock: Callable[[], float], seconds: float = 0.5) -> None:
        self.stopping = False
        self.reporting = threading.Lock()
        self._on_stats = on_stats
        self._clock = clock
        self._seconds = seconds
        self._report_at = 0.0
        self._stalled: Stalled = NOT_STALLED
        self._answers = Stall(2 * WATCH_SECONDS)
        self._loop: Loop | None = None

    def stop(self) -> None:
        """Asks `run` to end; from any thread or a signal handler."""
        self.stopping = True

    @property
    def stats(self) -> Any:
        """Statistics so far; None before `run`."""
        return None if self._loop is None else self._loop.stats(self._stalled)

    def run(self, loop: Loop, watch: TopicWatch, *publishers: StatsPublisher) -> None:
        """Runs the loop. The first publisher is for its own statistics, the others for those of its chained bolts."""
        self._loop, self._watch, self._publishers = loop, watch, publishers
        why = ""
        try:
            loop.run(lambda: self.stopping)
        except Exception as error:
            why = describe_error(error)
            raise
        finally:
            self._stalled = NOT_STALLED
            for publisher, stats in zip(publishers, self._all_stats(), strict=True):
                self._on_stats(stats)
                publisher.end(self._clock(), stats.to_dict(), why)

    def tick(self, now: float) -> None:
        """Reports, and looks at the topics, if it is time to."""
        if now < self._report_at or self._loop is None:
            return
        self._report_at = now + self._seconds
        answers = self._answers.seconds(now, self._watch.answers), BROKERS
        longest = max((*self._loop.stalls(now), answers))
        self.report(longest if longest[0] else NOT_STALLED)
        if problem := self._watch.look(now):
            raise TopicsError(*problem)

    def report(self, stalled: Stalled) -> None:
        """Reports; also from another thread, while a turn does not return."""
        with self.reporting:
            self._stalled = stalled
            for publisher, stats in zip(self._publishers, self._all_stats(), strict=True):
                self._on_stats(stats)
                publisher.look(self._clock(), stats.to_dict)

    def _all_stats(self) -> list[Any]:
        return [] if self._loop is None else [self._loop.stats(self._stalled), *self._loop.chained_stats()]


def describe_error(error: Exception) -> str:
    """An error that ends a process, as one line; the sentence of one that has a remedy."""
    return " ".join((text_of(error) if isinstance(error, AckerError) else describe(error)).split())


@contextmanager
def broker_errors(what: str) -> Iterator[None]:
    """Turns exceptions of clients in its body into `BrokerError`s of the process that `what` names."""
    try:
        yield
    except KafkaException as error:
        reason = error.args[0]
        raise BrokerError(
            f"{what} cannot continue: {reason.str() if hasattr(reason, 'str') else reason}; check the Kafka settings "
            "and the brokers, and restart. Nothing is lost"
        ) from error
