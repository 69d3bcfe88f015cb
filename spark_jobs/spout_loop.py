"""The threads beside a spout's query: one reads outcomes and commits the acked prefix, one replays what failed."""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from confluent_kafka import Message, Producer

from kafka_clients.client_settings import for_producer
from spark_jobs.entries import dead_letter
from spark_jobs.errors import SparkJobError, TopicsRefusedError
from spark_jobs.outcomes import Outcomes
from spark_jobs.replays import MOST, REACH, ReplayRounds
from spark_jobs.spout_offsets import SpoutOffsets
from tuple_tree.codec import decode_notice_batch
from tuple_tree.errors import VersionError, WireError

logger = logging.getLogger("spark_jobs.spout")

_POLL_SECONDS: Final = 0.05
_COMMIT_SECONDS: Final = 1.0
_SILENCE_SECONDS: Final = 30.0
_DELIVERY_SECONDS: Final = 10.0


class SpoutLoop:
    """A thread that owns the spout's consumer, and one for replays, which may take as long as a micro-batch.

    Args:
        kafka: librdkafka properties.
        topology: its name.
        spout: its name.
        task: the one that receives the outcomes.
        offsets: the consumer.
        outcomes: what is open.
        replays: delivers again; used by its thread alone.

    Attributes:
        error: why the loop cannot go on; None as long as it can.
        on_error: called then.
        check: called again and again; what it raises ends the loop.
    """

    def __init__(
        self,
        kafka: Mapping[str, Any],
        topology: str,
        spout: str,
        task: int,
        offsets: SpoutOffsets,
        outcomes: Outcomes,
        replays: ReplayRounds,
    ) -> None:
        self._kafka = kafka
        self._topology = topology
        self._by = f"{spout}/{task}"
        self._offsets = offsets
        self._outcomes = outcomes
        self._replays = replays
        self._commit_at = 0.0
        self._stopping = threading.Event()
        self._draining = threading.Event()
        name = f"{topology}.{spout}"
        self._thread = threading.Thread(target=self._run, name=f"outcomes of {name}", daemon=True)
        self._replaying = threading.Thread(target=self._replay, name=f"replays of {name}", daemon=True)
        self.error: BaseException | None = None
        self.on_error: Callable[[], object] = lambda: None
        self.check: Callable[[], object] = lambda: None

    def catch_up(self, mark: int, end: int) -> None:
        """Reads the notices up to an end; before `start`.

        Raises:
            TopicsRefusedError: if they do not come.
        """
        self._offsets.read_from(mark)
        last = time.monotonic()
        while self._offsets.mark < end:
            if self._read(_POLL_SECONDS):
                last = time.monotonic()
            elif time.monotonic() > last + _SILENCE_SECONDS:
                raise TopicsRefusedError(
                    f"the notices before offset {end} could not be read within {_SILENCE_SECONDS:g} s, only those "
                    f"before {self._offsets.mark}: check the brokers"
                )

    def start(self) -> None:
        self._thread.start()
        self._replaying.start()

    @property
    def mark(self) -> int:
        """The offset before which the notices were read."""
        return self._offsets.mark

    def drain(self) -> None:
        """Lets the loop end as soon as nothing is open."""
        self._draining.set()

    def stop(self) -> None:
        """Ends the loop, commits, and closes the consumer."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        elif self._thread.ident is None:
            self._offsets.close()

    def ended(self, seconds: float | None) -> bool:
        """Waits for the end of the loop; returns whether it has ended."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            while not self._is_over:
                self.check()
                self._read(_POLL_SECONDS)
                now = time.monotonic()
                self._outcomes.tick(now)
                if now >= self._commit_at:
                    self._commit_at = now + _COMMIT_SECONDS
                    self._offsets.commit(self._outcomes.prefixes(self._offsets.mark))
            # What is being delivered again has to be known before the last commit.
            self._replaying.join()
            self._offsets.commit(self._outcomes.prefixes(self._offsets.mark))
        except BaseException as error:  # whatever it is, the query must not go on without us
            logger.exception("the loop of the outcomes cannot go on")
            self._fail(error)
        finally:
            self._offsets.close()

    def _replay(self) -> None:
        try:
            while not self._is_over:
                if due := self._outcomes.take_due(MOST, REACH, _POLL_SECONDS):
                    for partition, offsets in self._replays.run(due):
                        self._outcomes.done(partition, offsets)
        except BaseException as error:  # as above
            logger.exception("replays cannot go on")
            self._fail(error)

    @property
    def _is_over(self) -> bool:
        is_drained = self._draining.is_set() and self._outcomes.idle
        return self._stopping.is_set() or is_drained or self.error is not None

    def _fail(self, error: BaseException) -> None:
        self.error = self.error or error
        self.on_error()

    def _read(self, seconds: float) -> bool:
        messages = self._offsets.poll(seconds)
        for message in messages:
            value = message.value()
            value = value.encode() if isinstance(value, str) else value
            try:
                self._outcomes.read(decode_notice_batch(value))
            except VersionError as error:
                where = f"{message.topic()}[{message.partition()}] offset {message.offset()}"
                raise SparkJobError(f"{where} cannot be read: {error.detail}") from error
            except WireError as error:
                self._reject(message, value, error)
        return bool(messages)

    def _reject(self, message: Message, value: bytes | None, error: WireError) -> None:
        """Makes a dead letter of a notice that cannot be read; its trees are given up as lost in the end."""
        place = message.topic() or "", message.partition() or 0, message.offset() or 0
        logger.warning("unreadable notice at offset %d of %s: %s", place[2], place[0], error)
        topic, partition, _, _, headers = dead_letter(
            self._topology, place, reason=error.reason, detail=error.detail, by=self._by
        )
        failures: list[Any] = []
        producer = Producer({"log_level": 2, **for_producer(self._kafka), "acks": "all"})
        producer.produce(
            topic,
            value,
            partition=partition,
            headers=[*headers],
            on_delivery=lambda failure, _message: failures.append(failure) if failure else None,
        )
        if producer.flush(_DELIVERY_SECONDS) or failures:
            raise SparkJobError(
                f"a dead letter could not be delivered to {topic} ({failures or 'no answer'}): check the brokers"
            )
