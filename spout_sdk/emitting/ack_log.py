"""The ack batches of a task: their sequence numbers, their delivery, and the input records that are then done."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from kafka_clients.repeated_lines import get_logger
from spout_sdk.api.tuples import InputPack
from spout_sdk.emitting.input_offsets import InputOffsets
from spout_sdk.errors import DeliveryError
from spout_sdk.records import Clock, Sink
from tuple_tree.entries import Entries
from tuple_tree.ids import ID_MASK
from tuple_tree.messages import AckBatch, SpoutAddress, encode_ack_batch

logger = get_logger("spout_sdk.acks")

_WAIT_SECONDS: Final = 1.0
_STICKY_TREES: Final = 2_048
_STICKY_SECONDS: Final = 0.05

Columns = dict[str, Any]  # fields of an `AckBatch`, by name


@dataclass(slots=True)
class _Sent:
    """Batches sent together: the records that they cover are done when these, and all sent before, are delivered."""

    fully_settled: Sequence[InputPack]
    undelivered: int  # batches
    calls: list[Callable[[], None]] = field(default_factory=list)  # to be called when they are delivered


@dataclass(eq=False, repr=False)
class AckLog:
    """Sends the entries of one writer: a batch for each partition of the ack topic; none if no tree is tracked.

    Attributes:
        in_flight: batches that were sent and are not delivered yet.
        failure: why the task cannot continue; raised by its next tick.
    """

    topic: str
    partitions: int
    writer: str
    session: bytes  # random, for this owner of the task
    sink: Sink
    clock: Clock
    inputs: InputOffsets
    spout: SpoutAddress | None = None  # where notices about inits go; None for a bolt

    def __post_init__(self) -> None:
        self._sequences = [0] * self.partitions
        self._sent: deque[_Sent] = deque()
        self.in_flight = 0
        self.failure: DeliveryError | None = None
        self._sticky = self.session[-1] % self.partitions
        self._sticky_trees = 0
        self._sticky_since = self.clock()

    def open(self) -> None:
        """Sends the batch that opens the session to each partition; nothing may be sent before it is delivered."""
        sent = _Sent((), self.partitions)
        self._sent.append(sent)
        for partition in range(self.partitions):
            self._send(sent, partition, {})

    def sticky(self, root: int) -> int:
        """A random root, moved to the ack partition that is in use now (ADR 20)."""
        sticky = root - root % self.partitions + self._sticky
        return sticky if sticky <= ID_MASK else sticky - self.partitions

    def send(self, entries: Entries, fully_settled: Sequence[InputPack] = ()) -> None:
        """Sends entries; `fully_settled` records are done once these, and all before, are delivered."""
        shares = list(entries.shares(self.partitions))
        if not shares:
            self._note_settled(fully_settled)
            return
        self._choose_next_partition(len(entries.init_roots))
        sent = _Sent(fully_settled, len(shares))
        self._sent.append(sent)
        for partition, share in shares:
            self._send(sent, partition, share, self.spout if "init_roots" in share else None)

    def _choose_next_partition(self, trees: int) -> None:
        """Moves to the next partition after 2,048 trees or 50 ms."""
        self._sticky_trees += trees
        now = self.clock()
        if self._sticky_trees >= _STICKY_TREES or now - self._sticky_since >= _STICKY_SECONDS:
            self._sticky = (self._sticky + 1) % self.partitions
            self._sticky_trees, self._sticky_since = 0, now

    def when_delivered(self, call: Callable[[], None]) -> None:
        """Calls a function when everything that was sent is delivered, which may be now."""
        if self._sent:
            self._sent[-1].calls.append(call)
        else:
            call()

    def wait(self) -> None:
        """Waits until everything that was sent is delivered; raises `DeliveryError` if a batch is not."""
        while self.in_flight > 0 and self.failure is None:
            self.sink.flush_acks(_WAIT_SECONDS)
        if self.failure is not None:
            raise self.failure

    def _note_settled(self, fully_settled: Sequence[InputPack]) -> None:
        if self._sent and fully_settled:
            self._sent[-1].fully_settled = [*self._sent[-1].fully_settled, *fully_settled]
        elif fully_settled:
            self.inputs.settle(fully_settled)

    def _send(self, sent: _Sent, partition: int, columns: Columns, spout: SpoutAddress | None = None) -> None:
        batch = AckBatch(self.writer, self.session, self._sequences[partition], not columns, spout, **columns)
        self._sequences[partition] += 1
        self.in_flight += 1
        reported = partial(self._delivered, sent, partition)
        self.sink.send_reported(self.topic, partition, None, encode_ack_batch(batch), [], reported)

    def _delivered(self, sent: _Sent, partition: int, error: Any, _message: Any) -> None:
        self.in_flight -= 1
        if error is None:
            sent.undelivered -= 1
            while self._sent and not self._sent[0].undelivered:
                sent = self._sent.popleft()
                self.inputs.settle(sent.fully_settled)
                for call in sent.calls:
                    call()
            return
        # Its inputs stay open, so the committed offset cannot pass them, and the process stops.
        self.failure = DeliveryError(f"an ack batch of {self.writer}", self.topic, partition, error)
        logger.error("%s; %d records stay uncommitted", self.failure, len(sent.fully_settled))
