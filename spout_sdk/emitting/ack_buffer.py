"""The ack buffer of a task: what it has to tell the ackers, packed into a batch for each of their partitions.

Batches go out when the buffer is full, when its oldest entry has lingered, and at once when the task's input has run
dry. Entries are shared out among the partitions only then, all in one go, because that is cheaper than one by one.
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

_NONE: Final[IdColumn] = np.empty(0, dtype=np.uint64)

Places = NDArray[np.intp]
"""Positions of entries in a column."""


class Entries(NamedTuple):
    """Entries of ack batches, a column for each thing that is told.

    Attributes:
        init_roots, init_vals: shape `(n,)`; root, XOR of the edge ids of every recipient.
        ack_roots, ack_vals: shape `(m,)`; root, ack val.
        fail_roots: shape `(k,)`.
        fail_messages: why, one for each of `fail_roots`.
        reset_roots: shape `(r,)`.
    """

    init_roots: IdColumn = _NONE
    init_vals: IdColumn = _NONE
    ack_roots: IdColumn = _NONE
    ack_vals: IdColumn = _NONE
    fail_roots: IdColumn = _NONE
    fail_messages: tuple[str, ...] = ()
    reset_roots: IdColumn = _NONE


NOTHING: Final = Entries()


def split(entries: Entries, partitions: int) -> list[tuple[int, Entries]]:
    """Shares entries out by root mod P; within a partition they keep their order.

    Args:
        entries: of all partitions.
        partitions: P.

    Returns:
        A share for each partition that there is anything for, partitions rising.
    """
    if partitions == 1:
        return [(0, entries)]
    inits = _places(entries.init_roots, partitions)
    acks = _places(entries.ack_roots, partitions)
    fails = _places(entries.fail_roots, partitions)
    resets = _places(entries.reset_roots, partitions)
    shares = []
    for partition in sorted({*inits, *acks, *fails, *resets}):
        began, acked = inits.get(partition), acks.get(partition)
        failed, reset = fails.get(partition), resets.get(partition)
        shares.append(
            (
                partition,
                Entries(
                    _taken(entries.init_roots, began),
                    _taken(entries.init_vals, began),
                    _taken(entries.ack_roots, acked),
                    _taken(entries.ack_vals, acked),
                    _taken(entries.fail_roots, failed),
                    () if failed is None else tuple(entries.fail_messages[place] for place in failed),
                    _taken(entries.reset_roots, reset),
                ),
            )
        )
    return shares


def parts(partition: int, entries: Entries, most: int) -> Iterator[tuple[int, Entries]]:
    """The entries of a partition, so many at most of each kind at a time."""
    columns: tuple[Any, ...] = entries
    size = max(map(len, columns))
    for begin in range(0, size, most):
        yield partition, Entries(*(column[begin : begin + most] for column in columns))


def _places(roots: IdColumn, partitions: int) -> dict[int, Places]:
    """Partition → where its roots stand."""
    if not len(roots):
        return {}
    owners = (roots % np.uint64(partitions)).astype(np.intp)
    if len(owners) == 1:
        return {int(owners[0]): np.zeros(1, dtype=np.intp)}
    order = np.argsort(owners, kind="stable")
    ends = np.cumsum(np.bincount(owners, minlength=partitions)).tolist()
    starts = [0, *ends]
    return {partition: order[starts[partition] : end] for partition, end in enumerate(ends) if end > starts[partition]}


def _taken(column: IdColumn, places: Places | None) -> IdColumn:
    return _NONE if places is None else column[places]


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
        inputs: whose records are done when all about their tuples was delivered.
        spout: who is told the outcome of inits; None for a bolt.

    Attributes:
        send_children: sends what was emitted and not sent yet; called before each batch, as children go first.
        add_root, add_val: the two steps of `ack`, for callers on the hot path.
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
        self._told = 0  # characters of messages
        self._is_sending = False
        self.send_children: Callable[[], None] = _nothing
        # The arrays live as long as the buffer, so what is called for each ack is looked up once.
        self.add_root = self._ack_roots.append
        self.add_val = self._ack_vals.append

    def open(self) -> None:
        """Sends the batch that opens the session to every partition; nothing else may be sent before it arrived."""
        sent = _Sent([], self._partitions)
        self._sent.append(sent)
        for partition in range(self._partitions):
            self._send(sent, partition, NOTHING, opens=True)

    def init(self, root: int, val: int) -> None:
        """A tree begins: the XOR of the edges of every recipient."""
        self._init_roots.append(root)
        self._init_vals.append(val)
        if len(self._init_roots) >= FULL:
            self.flush()

    def init_columns(self, roots: IdColumn, vals: IdColumn) -> None:
        """Trees begin: shape `(n,)` each."""
        self._init_roots.frombytes(roots.tobytes())
        self._init_vals.frombytes(vals.tobytes())

    def sticky(self, root: int) -> int:
        """A root of the partition that is in use until the next flush, made of a random one.

        What a spout emits together is then acked together, in one batch of each bolt's flush instead of P.
        """
        sticky = root - root % self._partitions + self._sticky
        return sticky if sticky <= ID_MASK else sticky - self._partitions

    def ack(self, root: int, val: int) -> None:
        """An input was processed, as far as one of its roots is concerned."""
        self.add_root(root)
        self.add_val(val)

    def ack_columns(self, roots: IdColumn, vals: IdColumn) -> None:
        """Inputs were processed: shape `(n,)` each, an entry for each of their roots."""
        self._ack_roots.frombytes(roots.tobytes())
        self._ack_vals.frombytes(vals.tobytes())

    def cover(self, pack: InputPack) -> None:
        """All tuples of a record were acked or failed: it is done once everything so far is delivered."""
        if self._size:
            self._covered.append(pack)
            if self._size >= FULL:
                self.flush()
        elif self._sent:
            self._sent[-1].covered.append(pack)
        else:
            self._inputs.done((pack,))

    def fail(self, root: int, message: str) -> None:
        """A tree has failed."""
        told = message if len(message) <= MAX_MESSAGE else message[: MAX_MESSAGE - 1] + "…"
        self._fail_roots.append(root)
        self._fail_messages.append(told)
        self._told += len(told)
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
        """A tree is still being worked on."""
        self._reset_roots.append(root)
        if self._size >= FULL:
            self.flush()

    def tick(self, now: float) -> None:
        """Sends what has lingered.

        Raises:
            DeliveryError: if a batch was not delivered.
        """
        if self._failure is not None:
            raise self._failure
        if not self._size:
            self._since = None
        elif self._since is None:
            self._since = now
        elif now - self._since >= LINGER_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Sends all that is buffered, a batch for each partition that something is buffered for."""
        self._since = None
        if self._is_sending:
            # A batch waits for room, and hears delivery reports meanwhile: what they ack must not overtake it.
            return
        self._is_sending = True
        try:
            self.send_children()
            while self._size:
                self._send_buffered()
        finally:
            self._is_sending = False

    def deliver(self) -> None:
        """Sends all that is buffered, and waits until it is delivered.

        Raises:
            DeliveryError: if a batch was not delivered.
            BrokerError: if the producer cannot go on.
        """
        self.flush()
        while self._in_flight > 0 and self._failure is None:
            self._sink.flush_acks(_WAIT_SECONDS)
        if self._failure is not None:
            raise self._failure

    @property
    def in_flight(self) -> int:
        """Batches that were sent and whose delivery is not known yet."""
        return self._in_flight

    @property
    def _size(self) -> int:
        """Entries that are buffered; a message takes the room of several."""
        roots = len(self._ack_roots) + len(self._init_roots) + len(self._fail_roots) + len(self._reset_roots)
        return roots + self._told // _ENTRY_CHARACTERS

    @property
    def failure(self) -> DeliveryError | None:
        """Why this writer cannot go on; None as long as it can."""
        return self._failure

    def give_up(self, failure: DeliveryError) -> None:
        """Lets the next `tick` raise this: the writer cannot go on."""
        self._failure = failure

    def _delivered(self, sent: _Sent, partition: int, error: Any, _message: Any) -> None:
        """The delivery report of a batch."""
        self._in_flight -= 1
        if error is None:
            sent.undelivered -= 1
            while self._sent and not self._sent[0].undelivered:
                self._inputs.done(self._sent.popleft().covered)
            return
        # Its inputs stay open, so the committed offset cannot pass them, and the process stops: see `tick`.
        self._failure = DeliveryError(f"an ack batch of {self._writer}", self._topic, partition, error)
        logger.error("%s; %d records stay uncommitted", self._failure, len(sent.covered))

    def _send_buffered(self) -> None:
        entries = Entries(
            _column(self._init_roots),
            _column(self._init_vals),
            _column(self._ack_roots),
            _column(self._ack_vals),
            _column(self._fail_roots),
            tuple(self._fail_messages),
            _column(self._reset_roots),
        )
        covered, self._covered = self._covered, []
        self._sticky = (self._sticky + 1) % self._partitions
        self._told = 0
        for ids in (
            self._init_roots,
            self._init_vals,
            self._ack_roots,
            self._ack_vals,
            self._fail_roots,
            self._reset_roots,
        ):
            del ids[:]
        self._fail_messages.clear()
        shares = [part for share in split(entries, self._partitions) for part in parts(*share, _LARGEST)]
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
            init_roots=entries.init_roots,
            init_vals=entries.init_vals,
            ack_roots=entries.ack_roots,
            ack_vals=entries.ack_vals,
            fail_roots=entries.fail_roots,
            fail_messages=entries.fail_messages,
            reset_roots=entries.reset_roots,
        )
        self._sequences[partition] += 1
        self._in_flight += 1
        reported = partial(self._delivered, sent, partition)
        self._sink.send_reported(self._topic, partition, None, encode_ack_batch(batch), [], reported)


def _nothing() -> None:
    """A spout that emits nothing has no children to send."""


def _column(ids: "array[int]") -> IdColumn:
    return np.array(ids, np.uint64)
