"""The ack buffer of a task: what it has to tell the ackers, packed into a batch for each of their partitions.

A batch goes out when it is full, when its oldest entry has lingered, and at once when the task's input has run dry.
"""

import logging
from array import array
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from spout_sdk.errors import DeliveryError
from spout_sdk.input_offsets import InputOffsets
from spout_sdk.records import Sink
from tuple_tree.codec import encode_ack_batch
from tuple_tree.ids import IdColumn
from tuple_tree.messages import AckBatch, SpoutTask

logger = logging.getLogger("spout_sdk.acks")

FULL: Final = 4096
"""Entries of a batch, at most; with 16 bytes an entry about 64 KiB."""

LINGER_SECONDS: Final = 0.005

MAX_MESSAGE: Final = 500
"""Characters of a fail message that are kept: it is read by people, and the batch must fit a record."""

_ENTRY_CHARACTERS: Final = 16


class _Outbox:
    """What is buffered for one acker partition."""

    __slots__ = (
        "ack_roots",
        "ack_vals",
        "fail_messages",
        "fail_roots",
        "init_roots",
        "init_vals",
        "offsets",
        "partition",
        "reset_roots",
        "sequence",
        "size",
    )

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.sequence = 0
        self.clear()

    def clear(self) -> None:
        self.size = 0
        self.init_roots: list[int] = []
        self.init_vals: list[int] = []
        self.ack_roots: list[int] = []
        self.ack_vals: list[int] = []
        self.fail_roots: list[int] = []
        self.fail_messages: list[str] = []
        self.reset_roots: list[int] = []
        self.offsets: list[int] = []


class _SentBatch:
    """A batch on its way; one small object a batch instead of a closure."""

    __slots__ = ("buffer", "offsets", "partition")

    def __init__(self, buffer: "AckBuffer", partition: int, offsets: list[int]) -> None:
        self.buffer = buffer
        self.partition = partition
        self.offsets = offsets

    def delivered(self, error: Any, _message: Any) -> None:
        self.buffer.batch_delivered(self.partition, self.offsets, error)


class AckBuffer:
    """Buffers inits, acks, fails and resets of one writer, and sends them.

    Args:
        topic: `{topology}.acks`.
        partitions: P of `root mod P`.
        writer: `component/task`.
        session: 16 random bytes, drawn for this owner of the task.
        sink: where to send.
        inputs: whose offsets are settled when what covers them was delivered.
        spout: who is told the outcome of inits; None for a bolt.
    """

    def __init__(
        self,
        topic: str,
        partitions: int,
        writer: str,
        session: bytes,
        sink: Sink,
        inputs: InputOffsets,
        spout: SpoutTask | None = None,
    ) -> None:
        self._topic = topic
        self._partitions = partitions
        self._writer = writer
        self._session = session
        self._sink = sink
        self._inputs = inputs
        self._spout = spout
        self._outboxes = [_Outbox(partition) for partition in range(partitions)]
        self._since: float | None = None
        self._in_flight = 0
        self._failure: DeliveryError | None = None

    def open(self) -> None:
        """Sends the batch that opens the session to every partition; nothing else may be sent before it arrived."""
        for outbox in self._outboxes:
            self._send(outbox, opens=True)

    def init(self, root: int, val: int) -> None:
        """A tree begins: the XOR of the edges of every recipient."""
        outbox = self._outboxes[root % self._partitions]
        outbox.init_roots.append(root)
        outbox.init_vals.append(val)
        outbox.size += 1
        if outbox.size >= FULL:
            self._send(outbox)

    def ack(self, root: int, val: int, offset: int) -> None:
        """An input of this offset was processed."""
        outbox = self._outboxes[root % self._partitions]
        outbox.ack_roots.append(root)
        outbox.ack_vals.append(val)
        outbox.offsets.append(offset)
        outbox.size += 1
        if outbox.size >= FULL:
            self._send(outbox)

    def fail(self, root: int, message: str, offset: int | None = None) -> None:
        """A tree has failed; with an offset, because of the input that lies there."""
        outbox = self._outboxes[root % self._partitions]
        outbox.fail_roots.append(root)
        outbox.fail_messages.append(message if len(message) <= MAX_MESSAGE else message[: MAX_MESSAGE - 1] + "…")
        if offset is not None:
            outbox.offsets.append(offset)
        # A message takes the room of several entries.
        outbox.size += 1 + min(len(message), MAX_MESSAGE) // _ENTRY_CHARACTERS
        if outbox.size >= FULL:
            self._send(outbox)

    def reset(self, root: int) -> None:
        """A tree is still being worked on."""
        outbox = self._outboxes[root % self._partitions]
        outbox.reset_roots.append(root)
        outbox.size += 1
        if outbox.size >= FULL:
            self._send(outbox)

    def tick(self, now: float) -> None:
        """Sends what has lingered.

        Raises:
            DeliveryError: if a batch was not delivered.
        """
        if self._failure is not None:
            raise self._failure
        if not any(outbox.size for outbox in self._outboxes):
            self._since = None
        elif self._since is None:
            self._since = now
        elif now - self._since >= LINGER_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Sends all that is buffered."""
        self._since = None
        for outbox in self._outboxes:
            if outbox.size:
                self._send(outbox)

    @property
    def in_flight(self) -> int:
        """Batches that were sent and whose delivery is not known yet."""
        return self._in_flight

    @property
    def failure(self) -> DeliveryError | None:
        """Why this writer cannot go on; None as long as it can."""
        return self._failure

    def give_up(self, failure: DeliveryError) -> None:
        """Lets the next `tick` raise this: the writer cannot go on."""
        self._failure = failure

    def batch_delivered(self, partition: int, offsets: Sequence[int], error: Any) -> None:
        """The delivery report of a batch."""
        self._in_flight -= 1
        if error is None:
            self._inputs.settle_all(offsets)
            return
        # Its inputs stay open, so the committed offset cannot pass them, and the process stops: see `tick`.
        self._failure = DeliveryError(f"an ack batch of {self._writer}", self._topic, partition, error)
        logger.error("%s; %d inputs stay uncommitted", self._failure, len(offsets))

    def _send(self, outbox: _Outbox, *, opens: bool = False) -> None:
        batch = AckBatch(
            writer=self._writer,
            session=self._session,
            sequence=outbox.sequence,
            opens=opens,
            spout=self._spout if outbox.init_roots else None,
            init_roots=_column(outbox.init_roots),
            init_vals=_column(outbox.init_vals),
            ack_roots=_column(outbox.ack_roots),
            ack_vals=_column(outbox.ack_vals),
            fail_roots=_column(outbox.fail_roots),
            fail_messages=tuple(outbox.fail_messages),
            reset_roots=_column(outbox.reset_roots),
        )
        sent = _SentBatch(self, outbox.partition, outbox.offsets)
        outbox.sequence += 1
        outbox.clear()
        self._in_flight += 1
        self._sink.send_reported(self._topic, outbox.partition, None, encode_ack_batch(batch), [], sent.delivered)


def _column(ids: list[int]) -> IdColumn:
    return np.frombuffer(array("Q", ids), dtype=np.uint64)
