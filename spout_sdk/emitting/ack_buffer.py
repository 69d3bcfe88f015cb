"""The ack buffer of a task: entries for the ackers, sent as a batch for each of their partitions.

Batches are sent when the buffer is full, and when the task flushes: its input is idle, or an entry has lingered.
Entries are shared out among the partitions only then, because all at once is cheaper than one by one.
"""

from array import array
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

from kafka_clients.repeated_lines import get_logger
from spout_sdk.api.tuples import InputPack
from spout_sdk.emitting.input_offsets import InputOffsets
from spout_sdk.errors import DeliveryError
from spout_sdk.records import Sink
from tuple_tree.entries import Entries
from tuple_tree.ids import ID_MASK, IdColumn
from tuple_tree.messages import AckBatch, SpoutAddress, encode_ack_batch

logger = get_logger("spout_sdk.acks")

# Entries, for all partitions together, after which they are sent; with 16 bytes an entry about 64 KiB.
FULL: Final = 4096
# Characters of a fail message that are kept: it is read by people, and the batch must fit a record.
MAX_MESSAGE: Final = 500
_ENTRY_CHARACTERS: Final = 16
_WAIT_SECONDS: Final = 1.0

Columns = dict[str, Any]  # of an `AckBatch`, by name


@dataclass(slots=True)
class _Sent:
    """Batches sent together: the records that they cover are done when these, and all sent before, are delivered."""

    covered: list[InputPack]
    undelivered: int  # batches


@dataclass(eq=False, repr=False)
class AckBuffer:
    """Buffers inits, acks, fails and resets of one writer, and sends them; there are none where no tree is followed."""

    topic: str
    partitions: int
    writer: str
    session: bytes  # drawn for this owner of the task
    sink: Sink
    inputs: InputOffsets  # whose records are done when all entries of their tuples are delivered
    spout: SpoutAddress | None = None  # where notices about inits go; None for a bolt

    def __post_init__(self) -> None:
        self._sequences = [0] * self.partitions
        self._sent: deque[_Sent] = deque()
        self.in_flight = 0  # batches that were sent and are not delivered yet
        self.failure: DeliveryError | None = None  # raised by the next tick of the task
        self._sticky = self.session[-1] % self.partitions
        self._inits, self._acks = array("Q"), array("Q")  # root and val of each, in turn
        self._fails, self._resets = array("Q"), array("Q")  # roots
        self._fail_messages: list[str] = []
        self._covered: list[InputPack] = []
        self._characters = 0  # of messages
        self._is_sending = False
        # Sends what was emitted and not sent yet; called before each batch, as children go first.
        self.send_children: Callable[[], None] = lambda: None
        # Buffers the root and then the val of an ack. The array lives as long as the buffer, so what is called for each
        # ack is looked up once.
        self.add_to_ack = self._acks.append

    def open(self) -> None:
        """Sends the batch that opens the session to each partition; nothing may be sent before it is delivered."""
        sent = _Sent([], self.partitions)
        self._sent.append(sent)
        for partition in range(self.partitions):
            self._send(sent, partition, {})

    def init(self, root: int, val: int) -> None:
        self._inits.extend((root, val))
        self.flush_full()

    def init_columns(self, roots: IdColumn, vals: IdColumn) -> None:
        self._inits.frombytes(np.column_stack((roots, vals)).tobytes())

    def sticky(self, root: int) -> int:
        """A random root, moved to the ack partition that is in use until the next flush (ADR 20)."""
        sticky = root - root % self.partitions + self._sticky
        return sticky if sticky <= ID_MASK else sticky - self.partitions

    def ack_columns(self, roots: IdColumn, vals: IdColumn) -> None:
        self._acks.frombytes(np.column_stack((roots, vals)).tobytes())

    def cover(self, pack: InputPack) -> None:
        """All tuples of a record are acked or failed: it is done once everything so far is delivered."""
        if self._size:
            self._covered.append(pack)
            self.flush_full()
        elif self._sent:
            self._sent[-1].covered.append(pack)
        else:
            self.inputs.settle((pack,))

    def fail(self, root: int, message: str) -> None:
        if len(message) > MAX_MESSAGE:
            message = message[: MAX_MESSAGE - 1] + "…"
        self._fails.append(root)
        self._fail_messages.append(message)
        self._characters += len(message)
        self.flush_full()

    def fail_acked(self, root: int, val: int, message: str) -> None:
        """A tree fails after an ack in it; an ack that was not sent yet is removed, or zero would come first."""
        for index in range(len(self._acks) - 2, -1, -2):
            if self._acks[index] == root and self._acks[index + 1] == val:
                del self._acks[index : index + 2]
                break
        self.fail(root, message)

    def reset(self, root: int) -> None:
        self._resets.append(root)
        self.flush_full()

    @property
    def is_empty(self) -> bool:
        return not self._size

    def flush_full(self) -> None:
        """Flushes if there is enough for a batch."""
        if self._size >= FULL:
            self.flush()

    def flush(self) -> None:
        """Sends all that is buffered, a batch for each partition."""
        if self._is_sending:
            # A batch waits for room, and delivery reports come meanwhile: what they ack must not be sent before it.
            return
        self._is_sending = True
        try:
            self.send_children()
            while self._size:
                self._send_buffered()
        finally:
            self._is_sending = False

    def deliver(self) -> None:
        """Sends all that is buffered, and waits until it is delivered; raises `DeliveryError` if it is not."""
        self.flush()
        while self.in_flight > 0 and self.failure is None:
            self.sink.flush_acks(_WAIT_SECONDS)
        if self.failure is not None:
            raise self.failure

    @property
    def _size(self) -> int:
        """Buffered entries; a message counts as several."""
        roots = (len(self._inits) + len(self._acks)) // 2 + len(self._fails) + len(self._resets)
        return roots + self._characters // _ENTRY_CHARACTERS

    def _delivered(self, sent: _Sent, partition: int, error: Any, _message: Any) -> None:
        self.in_flight -= 1
        if error is None:
            sent.undelivered -= 1
            while self._sent and not self._sent[0].undelivered:
                self.inputs.settle(self._sent.popleft().covered)
            return
        # Its inputs stay open, so the committed offset cannot pass them, and the process stops.
        self.failure = DeliveryError(f"an ack batch of {self.writer}", self.topic, partition, error)
        logger.error("%s; %d records stay uncommitted", self.failure, len(sent.covered))

    def _send_buffered(self) -> None:
        buffered = (self._inits, self._acks, self._fails, self._resets)
        inits, acks, fails, resets = (np.array(each, np.uint64) for each in buffered)
        entries = Entries(inits[::2], inits[1::2], acks[::2], acks[1::2], fails, self._fail_messages, resets)
        shares = list(entries.shares(self.partitions))
        for each in buffered:
            del each[:]
        self._fail_messages.clear()
        self._characters = 0
        covered, self._covered = self._covered, []
        self._sticky = (self._sticky + 1) % self.partitions
        sent = _Sent(covered, len(shares))
        self._sent.append(sent)
        for partition, share in shares:
            self._send(sent, partition, share, self.spout if len(share["init_roots"]) else None)

    def _send(self, sent: _Sent, partition: int, columns: Columns, spout: SpoutAddress | None = None) -> None:
        sequence = self._sequences[partition]
        opens = not columns
        batch = AckBatch(self.writer, self.session, sequence, opens, spout, **columns)
        self._sequences[partition] += 1
        self.in_flight += 1
        reported = partial(self._delivered, sent, partition)
        self.sink.send_reported(self.topic, partition, None, encode_ack_batch(batch), [], reported)
