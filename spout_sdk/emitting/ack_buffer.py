"""The ack buffer of a task: entries for the ackers, sent as a batch for each of their partitions.

Batches are sent when the buffer is full, when its oldest entry has lingered, and when the task's input is idle. Entries
are shared out among the partitions only then, because all at once is cheaper than one by one.
"""

import logging
from array import array
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spout_sdk.api.tuples import InputPack
from spout_sdk.emitting.input_offsets import InputOffsets
from spout_sdk.errors import DeliveryError
from spout_sdk.records import Sink
from tuple_tree.codec import encode_ack_batch
from tuple_tree.ids import ID_MASK, IdColumn
from tuple_tree.messages import AckBatch, SpoutAddress

logger = logging.getLogger("spout_sdk.acks")

FULL: Final = 4096
"""Entries, for all partitions together, after which they are sent; with 16 bytes an entry about 64 KiB."""

_LARGEST: Final = 32_768
"""Entries of a batch, at most: a bolt may ack any number of tuples in one call, and a batch must fit a record."""

LINGER_SECONDS: Final = 0.005

MAX_MESSAGE: Final = 500
"""Characters of a fail message that are kept: it is read by people, and the batch must fit a record."""

_ENTRY_CHARACTERS: Final = 16
_WAIT_SECONDS: Final = 1.0
_NO_IDS: Final[IdColumn] = np.empty(0, dtype=np.uint64)
_NO_PLACES: Final = np.empty(0, dtype=np.intp)


class Entries(NamedTuple):
    """Columns of an ack batch; see `AckBatch`."""

    init_roots: IdColumn = _NO_IDS
    init_vals: IdColumn = _NO_IDS
    ack_roots: IdColumn = _NO_IDS
    ack_vals: IdColumn = _NO_IDS
    fail_roots: IdColumn = _NO_IDS
    fail_messages: tuple[str, ...] = ()
    reset_roots: IdColumn = _NO_IDS


class _Sent:
    """Batches that were sent together.

    The records that they cover are done when all of them were delivered, and all that were sent before.
    """

    __slots__ = ("covered", "undelivered")

    def __init__(self, covered: list[InputPack], batches: int) -> None:
        self.covered = covered
        self.undelivered = batches


class AckBuffer:
    """Buffers inits, acks, fails and resets of one writer, and sends them.

    Args:
        topic: `{topology}.acks`.
        partitions: P of `root mod P`.
        writer: `component/task`.
        session: 16 random bytes, drawn for this owner of the task.
        sink: where to send.
        inputs: whose records are done when all entries of their tuples are delivered.
        spout: where notices about inits go; None for a bolt.

    Attributes:
        send_children: sends what was emitted and not sent yet; called before each batch, as children go first.
        add_root, add_val: buffer an ack, the one after the other.
    """

    def __init__(
        self,
        topic: str,
        partitions: int,
        writer: str,
        session: bytes,
        sink: Sink,
        inputs: InputOffsets,
        spout: SpoutAddress | None = None,
    ) -> None:
        self._topic = topic
        self._partitions = partitions
        self._writer = writer
        self._session = session
        self._sink = sink
        self._inputs = inputs
        self._spout = spout
        self._sequences = [0] * partitions
        self._since: float | None = None
        self._sent: deque[_Sent] = deque()
        self._in_flight = 0
        self._failure: DeliveryError | None = None
        self._sticky = session[-1] % partitions
        self._init_roots = array("Q")
        self._init_vals = array("Q")
        self._ack_roots = array("Q")
        self._ack_vals = array("Q")
        self._fail_roots = array("Q")
        self._fail_messages: list[str] = []
        self._reset_roots = array("Q")
        self._covered: list[InputPack] = []
        self._characters = 0  # of messages
        self._is_sending = False
        self.send_children: Callable[[], None] = lambda: None
        # The arrays live as long as the buffer, so what is called for each ack is looked up once.
        self.add_root = self._ack_roots.append
        self.add_val = self._ack_vals.append

    def open(self) -> None:
        """Sends the batch that opens the session to each partition; nothing may be sent before it is delivered."""
        sent = _Sent([], self._partitions)
        self._sent.append(sent)
        for partition in range(self._partitions):
            self._send(sent, partition, Entries(), opens=True)

    def init(self, root: int, val: int) -> None:
        self._init_roots.append(root)
        self._init_vals.append(val)
        if len(self._init_roots) >= FULL:
            self.flush()

    def init_columns(self, roots: IdColumn, vals: IdColumn) -> None:
        self._init_roots.frombytes(roots.tobytes())
        self._init_vals.frombytes(vals.tobytes())

    def sticky(self, root: int) -> int:
        """A random root, moved to the ack partition that is in use until the next flush (ADR 20)."""
        sticky = root - root % self._partitions + self._sticky
        return sticky if sticky <= ID_MASK else sticky - self._partitions

    def ack_columns(self, roots: IdColumn, vals: IdColumn) -> None:
        self._ack_roots.frombytes(roots.tobytes())
        self._ack_vals.frombytes(vals.tobytes())

    def cover(self, pack: InputPack) -> None:
        """All tuples of a record are acked or failed: it is done once everything so far is delivered."""
        if self._size:
            self._covered.append(pack)
            if self._size >= FULL:
                self.flush()
        elif self._sent:
            self._sent[-1].covered.append(pack)
        else:
            self._inputs.settle((pack,))

    def fail(self, root: int, message: str) -> None:
        if len(message) > MAX_MESSAGE:
            message = message[: MAX_MESSAGE - 1] + "…"
        self._fail_roots.append(root)
        self._fail_messages.append(message)
        self._characters += len(message)
        if self._size >= FULL:
            self.flush()

    def fail_acked(self, root: int, val: int, message: str) -> None:
        """A tree fails after an ack in it; an ack that was not sent yet is removed, or zero would come first."""
        for index in range(len(self._ack_roots) - 1, -1, -1):
            if self._ack_roots[index] == root and self._ack_vals[index] == val:
                del self._ack_roots[index], self._ack_vals[index]
                break
        self.fail(root, message)

    def reset(self, root: int) -> None:
        self._reset_roots.append(root)
        if self._size >= FULL:
            self.flush()

    def tick(self, now: float) -> None:
        """Sends what has lingered; raises `DeliveryError` if a batch was not delivered."""
        if self._failure is not None:
            raise self._failure
        if not self._size:
            self._since = None
        elif self._since is None:
            self._since = now
        elif now - self._since >= LINGER_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Sends all that is buffered, a batch for each partition."""
        self._since = None
        if self._is_sending:
            # A batch waits for room, and delivery reports come meanwhile: what they ack must not overtake it.
            return
        self._is_sending = True
        try:
            self.send_children()
            while self._size:
                self._send_buffered()
        finally:
            self._is_sending = False

    def deliver(self) -> None:
        """Sends all that is buffered, and waits until it is delivered; raises `BrokerError` if it is not."""
        self.flush()
        while self._in_flight > 0 and self._failure is None:
            self._sink.flush_acks(_WAIT_SECONDS)
        if self._failure is not None:
            raise self._failure

    @property
    def in_flight(self) -> int:
        """Batches that were sent and are not delivered yet."""
        return self._in_flight

    @property
    def _size(self) -> int:
        """Buffered entries; a message counts as several."""
        roots = len(self._ack_roots) + len(self._init_roots) + len(self._fail_roots) + len(self._reset_roots)
        return roots + self._characters // _ENTRY_CHARACTERS

    @property
    def failure(self) -> DeliveryError | None:
        return self._failure

    def give_up(self, failure: DeliveryError) -> None:
        """Lets the next `tick` raise a failure."""
        self._failure = failure

    def _delivered(self, sent: _Sent, partition: int, error: Any, _message: Any) -> None:
        self._in_flight -= 1
        if error is None:
            sent.undelivered -= 1
            while self._sent and not self._sent[0].undelivered:
                self._inputs.settle(self._sent.popleft().covered)
            return
        # Its inputs stay open, so the committed offset cannot pass them, and the process stops: see `tick`.
        self._failure = DeliveryError(f"an ack batch of {self._writer}", self._topic, partition, error)
        logger.error("%s; %d records stay uncommitted", self._failure, len(sent.covered))

    def _send_buffered(self) -> None:
        acks = (self._ack_roots, self._ack_vals)
        columns = (self._init_roots, self._init_vals, *acks, self._fail_roots, self._reset_roots)
        init_roots, init_vals, ack_roots, ack_vals, fails, resets = (np.array(ids, np.uint64) for ids in columns)
        messages = tuple(self._fail_messages)
        entries = Entries(init_roots, init_vals, ack_roots, ack_vals, fails, messages, resets)
        for ids in columns:
            del ids[:]
        self._fail_messages.clear()
        self._characters = 0
        covered, self._covered = self._covered, []
        self._sticky = (self._sticky + 1) % self._partitions
        shares = [part for share in _split(entries, self._partitions) for part in _parts(*share)]
        sent = _Sent(covered, len(shares))
        self._sent.append(sent)
        for partition, share in shares:
            self._send(sent, partition, share)

    def _send(self, sent: _Sent, partition: int, entries: Entries, *, opens: bool = False) -> None:
        batch = AckBatch(
            writer=self._writer,
            session=self._session,
            sequence=self._sequences[partition],
            opens=opens,
            spout=self._spout if len(entries.init_roots) else None,
            **entries._asdict(),
        )
        self._sequences[partition] += 1
        self._in_flight += 1
        reported = partial(self._delivered, sent, partition)
        self._sink.send_reported(self._topic, partition, None, encode_ack_batch(batch), [], reported)


def _split(entries: Entries, partitions: int) -> list[tuple[int, Entries]]:
    """Entries by partition, root mod P, partitions rising; within a partition they keep their order."""
    if partitions == 1:
        return [(0, entries)]
    inits = _places(entries.init_roots, partitions)
    acks = _places(entries.ack_roots, partitions)
    fails = _places(entries.fail_roots, partitions)
    resets = _places(entries.reset_roots, partitions)
    shares = []
    for partition in sorted({*inits, *acks, *fails, *resets}):
        init, ack = inits.get(partition, _NO_PLACES), acks.get(partition, _NO_PLACES)
        fail = fails.get(partition, _NO_PLACES)
        share = Entries(
            entries.init_roots[init],
            entries.init_vals[init],
            entries.ack_roots[ack],
            entries.ack_vals[ack],
            entries.fail_roots[fail],
            tuple(entries.fail_messages[place] for place in fail),
            entries.reset_roots[resets.get(partition, _NO_PLACES)],
        )
        shares.append((partition, share))
    return shares


def _parts(partition: int, entries: Entries) -> Iterator[tuple[int, Entries]]:
    """The entries of a partition, in batches that fit a record."""
    columns: tuple[Any, ...] = entries
    for begin in range(0, max(map(len, columns)), _LARGEST):
        yield partition, Entries(*(column[begin : begin + _LARGEST] for column in columns))


def _places(roots: IdColumn, partitions: int) -> dict[int, NDArray[np.intp]]:
    """Partition → positions of its roots."""
    if not len(roots):
        return {}
    owners = (roots % np.uint64(partitions)).astype(np.intp)
    if len(owners) == 1:
        return {int(owners[0]): np.zeros(1, dtype=np.intp)}
    order = np.argsort(owners, kind="stable")
    ends = np.cumsum(np.bincount(owners, minlength=partitions)).tolist()
    starts = [0, *ends]
    return {partition: order[starts[partition] : end] for partition, end in enumerate(ends) if end > starts[partition]}
