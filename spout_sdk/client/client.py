"""`Client`: sends messages to the topic of a spout, and waits for their outcomes and answers."""

import asyncio
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Final, Self

from confluent_kafka import KafkaError, KafkaException

from spout_sdk.api.topology import Topology
from spout_sdk.arguments import check_count, check_seconds
from spout_sdk.client.calls import Call, Calls
from spout_sdk.client.reading import Batch, Reading
from spout_sdk.client.sending import Sending
from spout_sdk.client.target import Target, find_target
from spout_sdk.errors import (
    ClientClosedError,
    DeadLetterError,
    NotDeliveredError,
    OutcomePendingError,
    TooManyCallsError,
)
from spout_sdk.kafka.kafka_settings import KafkaSettings, checked
from spout_sdk.outcome import MessageOutcome
from tuple_tree.outcome_records import OutcomeRecord

_FULL_SECONDS: Final = 0.01

RecordHeaders = Sequence[tuple[str, str | bytes | None]]


class Client:
    """Sends messages to the topic that a `KafkaSpout` reads, and waits until their trees have ended.

        async with Client(topology, {"bootstrap.servers": "kafka-1:9092"}) as client:
            outcome = await client.process("apples", key="order-1")
            print(outcome.answer)

    The spout has to write outcomes, `set_spout(…, outcomes=…)`, or a bolt has to answer its messages, `answers = True`
    and `collector.answer`. Each client reads the outcomes and answers of all messages, from the time when it was
    opened, without a consumer group.

    Args:
        topology: the topology, or its name in `acker.topologies`.
        kafka: librdkafka properties; at least `bootstrap.servers`.
        spout: a spout of the topology; not needed if there is only one whose messages have outcomes.
        topic: a topic that the spout reads; needed if it reads several, or if `topology` is a name.
        max_open: how many messages may wait for their outcomes at a time; other calls of `process` wait before they
            send.

    Raises:
        SpoutSdkError: if the Kafka settings have no `bootstrap.servers`.
    """

    def __init__(
        self,
        topology: Topology | str,
        kafka: KafkaSettings,
        *,
        spout: str | None = None,
        topic: str | None = None,
        max_open: int = 1_000,
    ) -> None:
        self._topology, self._kafka, self._spout, self._topic = topology, checked(kafka), spout, topic
        self.max_open = check_count("max_open", max_open)
        self._slots = asyncio.Semaphore(max_open)
        self._calls = Calls()
        self._waiting: set[_Waiting] = set()
        self._ended: Exception | None = ClientClosedError("the client is not open: use it in an async with block")
        self._may_continue: Callable[[], None] | None = None  # reading stops until it is called

    async def __aenter__(self) -> Self:
        """Finds the topics, and starts to read.

        Raises:
            ClientError: if the topology has no such spout.
            BrokerError: if the brokers do not answer, a topic does not exist or may not be used, or there is no such
                topology.
        """
        self._loop, self._has_failed = asyncio.get_running_loop(), asyncio.Event()
        await asyncio.to_thread(self._open)
        self._ended = None
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._fail(ClientClosedError("the client was closed before the outcome of the message was read"))
        await asyncio.to_thread(self._close)

    async def process(
        self,
        value: bytes | str | None,
        *,
        key: bytes | str | None = None,
        headers: RecordHeaders = (),
        timeout: float = 30.0,
    ) -> MessageOutcome:
        """Sends a message, and waits until its tree has ended.

        If the caller is cancelled, or the timeout passes, the message is still processed. A call sends its
        message once; whether it was processed is not known after an error other than `TooManyCallsError` and
        `DeadLetterError`.

        Args:
            value: of the message; text becomes UTF-8.
            key: of the message.
            headers: of the message, pairs of name and value.
            timeout: seconds.

        Returns:
            The outcome, which is `acked` or `skipped`, with the answer of a bolt.

        Raises:
            DeadLetterError: if the message was given up, or could not be read.
            OutcomePendingError: if there is no outcome when the timeout passes. It is a `TimeoutError`.
            TooManyCallsError: if `max_open` other calls were open until then; nothing was sent.
            NotDeliveredError: if the message is refused, or not acknowledged within `delivery.timeout.ms`, 30 s
                unless set.
            ClientClosedError: if the client has ended.
        """
        self._check_open()
        deadline = self._loop.time() + check_seconds("timeout of process()", timeout)
        try:
            async with asyncio.timeout_at(deadline):
                await self._slots.acquire()
        except TimeoutError:
            raise TooManyCallsError(self.max_open, timeout) from None
        waiting = _Waiting(self._loop.create_future(), self._slots.release)
        self._waiting.add(waiting)
        self._calls.begin(waiting.call)
        try:
            async with asyncio.timeout_at(deadline):
                await self._send(waiting, _bytes(value), _bytes(key), headers)
                record, answer = await waiting.future
        except TimeoutError:
            partition, offset = waiting.call.position or (None, None)
            raise OutcomePendingError(self._target.topic, partition, offset, timeout) from None
        except ClientClosedError as error:
            if (position := waiting.call.position) is None:
                raise
            raise ClientClosedError(error.why, self._target.topic, *position) from error
        finally:
            self._waiting.discard(waiting)
            self._calls.end(waiting.call)
            waiting.end()
            self._continue_reading()
        outcome = MessageOutcome.of(record, answer)
        if outcome.outcome == "dead-letter":
            raise DeadLetterError(outcome)
        return outcome

    @property
    def open_calls(self) -> int:
        """How many calls wait for outcomes."""
        return len(self._waiting)

    @property
    def is_full(self) -> bool:
        """Whether a call would wait before it sends."""
        return self._slots.locked()

    async def wait_failed(self) -> Exception:
        """Waits until the client has ended with an error, and returns it; an orderly close is not an error."""
        await self._has_failed.wait()
        assert self._ended is not None  # noqa: S101 - set before
        return self._ended

    @property
    def failure(self) -> Exception | None:
        """The error that has ended the client; None while it runs."""
        return self._ended

    async def _send(self, waiting: "_Waiting", value: bytes | None, key: bytes | None, headers: RecordHeaders) -> None:
        def reported(error: KafkaError | None, message: Any) -> None:
            at = None if error is not None else (message.partition(), message.offset())
            self._loop.call_soon_threadsafe(self._reported, waiting, error, at)

        while True:
            self._check_open()
            try:
                self._sending.send(self._target.topic, value, key, headers, reported)
            except BufferError:
                await asyncio.sleep(_FULL_SECONDS)  # the queue of librdkafka has reached its limit of bytes
            except KafkaException as error:
                waiting.is_reported = True
                raise NotDeliveredError(self._target.topic, error.args[0].str()) from error
            else:
                waiting.is_sent = True
                return

    # In the event loop

    def _reported(self, waiting: "_Waiting", error: KafkaError | None, at: tuple[int, int] | None) -> None:
        if at is None:
            waiting.fail(NotDeliveredError(self._target.topic, error and error.str()))
            self._calls.end(waiting.call)
        else:
            self._calls.reported(waiting.call, *at)
        waiting.reported()
        self._continue_reading()

    def _take(self, batch: Batch, may_continue: Callable[[], None]) -> None:
        for record in batch:
            self._calls.read(record)
        self._may_continue = may_continue
        self._continue_reading()

    def _continue_reading(self) -> None:
        if self._may_continue is not None and not self._calls.is_full:
            may_continue, self._may_continue = self._may_continue, None
            may_continue()

    def _fail(self, error: Exception) -> None:
        if self._ended is not None:
            return
        self._ended = error
        if not isinstance(error, ClientClosedError):
            self._has_failed.set()
        for waiting in self._waiting:
            waiting.fail(self._closed(error))

    def _check_open(self) -> None:
        if self._ended is not None:
            raise self._closed(self._ended) from self._ended

    @staticmethod
    def _closed(error: Exception) -> ClientClosedError:
        return error if isinstance(error, ClientClosedError) else ClientClosedError(f"the client has ended: {error}")

    # In other threads

    def _open(self) -> None:
        def failed(error: Exception) -> None:
            self._loop.call_soon_threadsafe(self._fail, error)

        def take(batch: Batch, may_continue: Callable[[], None]) -> None:
            self._loop.call_soon_threadsafe(self._take, batch, may_continue)

        self._target: Target = find_target(self._topology, self._kafka, self._spout, self._topic)
        self._sending = Sending(self._kafka, failed)
        self._reading = Reading(self._kafka, self._target, take, failed)
        self._reading.start()
        self._sending.start()

    def _close(self) -> None:
        self._sending.close()
        self._reading.close()


_Settled = tuple[OutcomeRecord, bytes | None]


class _Waiting:
    """A call that waits; its slot is released when the call has ended and its message is delivered or has failed."""

    def __init__(self, future: "asyncio.Future[_Settled]", release: Callable[[], None]) -> None:
        self.future, self._release = future, release
        self.call = Call(self._settle)
        self.is_sent = self.is_reported = self._has_ended = False

    def _settle(self, record: OutcomeRecord, answer: bytes | None) -> None:
        if not self.future.done():
            self.future.set_result((record, answer))

    def fail(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)

    def reported(self) -> None:
        self.is_reported = True
        if self._has_ended:
            self._release()

    def end(self) -> None:
        self._has_ended = True
        if self.is_reported or not self.is_sent:
            self._release()
        if self.future.done() and not self.future.cancelled():
            self.future.exception()  # it may have failed after the timeout


def _bytes(text: bytes | str | None) -> bytes | None:
    if text is not None and not isinstance(text, bytes | str):
        raise TypeError(f"a message takes bytes, text or None, not {type(text).__name__}: json.dumps() makes text")
    return text.encode() if isinstance(text, str) else text
