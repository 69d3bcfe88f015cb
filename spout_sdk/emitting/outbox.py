"""The outbox of a task, which buffers and sends its tuples and entries.

The order of `flush` prevents false acks: first it draws the edges of all unsent tuples and joins them to their inputs;
then it computes the vals of inits and acks; and it sends tuples before the acks of their inputs.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final, Protocol

import numpy as np

from kafka_clients.repeated_lines import get_logger
from spout_sdk.api.tuples import NO_TREES, InputPack
from spout_sdk.emitting.ack_log import AckLog
from spout_sdk.emitting.buffer import GROWTH, Buffer, Place
from spout_sdk.emitting.chained_trees import ChainedTrees
from spout_sdk.emitting.open_pack import OpenPack
from spout_sdk.errors import DeliveryError, is_refused
from spout_sdk.records import Headers, TaskEnvironment
from tuple_tree.anchors import Columns
from tuple_tree.entries import Entries
from tuple_tree.ids import NO_IDS, IdColumn
from tuple_tree.input_batch import PLACE_MASK, InputBatch, PlacedRuns, as_column
from tuple_tree.messages import undelivered
from tuple_tree.packs import MAX_BYTES, Pack, packs

logger = get_logger("spout_sdk.outbox")

# Characters of a fail message that are kept, because a batch must fit a record.
MAX_MESSAGE: Final = 500
_MOST_CHARACTERS: Final = 65_536


class FlushedInputs(Protocol):
    """The part of a step's settlement that a flush uses."""

    writes: Any

    def count(self) -> None: ...
    def settle(self) -> None: ...


class Outbox(Buffer):
    """Tuples and entries of a task, buffered until `flush`.

    Delivery reports may arrive during a send: they are queued, and `handle_reports` is called between two calls of the
    user's code.

    Args:
        next_id: returns random ids, as seeds of edges.
        sends_inits_first: whether an init must be delivered before its tuple is sent: a bolt in Spark
            sends entries of children before that of their input. Entries that reach the acker before the init
            expire without it, and the input's could complete the tree (ADR 23).

    Attributes:
        begun: places of trees whose inits are not sent.
        acked: places of inputs whose acks are not sent.
        component: the component of the task, which writes its entries.
        settlements: of the steps of the task, which each flush settles first.
        trees: the trees of a spout with chained bolts; None for other tasks, which send the inits of all trees.
    """

    is_transactional = False

    def __init__(
        self,
        component: str,
        environment: TaskEnvironment,
        acks: AckLog,
        next_id: Callable[[], int],
        *,
        sends_inits_first: bool = False,
    ) -> None:
        super().__init__(environment.sink, next_id, sends_inits_first=sends_inits_first)
        self.component = component
        self._counters = environment.counters
        self.acks = acks
        self.begun, self.acked = PlacedRuns(), PlacedRuns()
        self.settlements: list[FlushedInputs] = []
        self._fails: list[int] = []
        self._fail_messages: list[str] = []
        self._characters = 0
        self._resets: list[int] = []
        self._marks: list[tuple[int, int, str]] = []
        self._reports: deque[tuple[Any, int, Any, Any]] = deque()  # about tuples that were not delivered
        self.trees: ChainedTrees | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing is buffered."""
        has_trees = self.trees is not None and self.trees.are_due
        places = self.begun.runs or self.acked.runs
        entries = has_trees or places or self._fails or self._resets or self._marks
        return not (self._open or entries or self.acks.inputs.has_ended or self._reports)

    def pass_on(self) -> None:
        """Passes tuples to the steps that receive them."""
        # One by one: a step that has received many tuples executes them, and emits.
        while (pack := next((each for each in self._open if each.step is not None), None)) is not None:
            self._send(pack)

    def fail(self, root: int, message: str) -> None:
        self._fails.append(root)
        self._fail_messages.append(self._counted(message))
        if self._characters >= _MOST_CHARACTERS:
            self._send_messages()

    def mark(self, places: Iterable[tuple[InputBatch, int]], message: str) -> None:
        """Marks the trees of places of a tuple that has become a dead letter; called before the tuple is acked.

        A mark is an ack of an edge of its own, which joins the place as that of a child does. So no tree completes
        before the acker has read its mark, in whatever order the entries arrive.
        """
        for batch, place in places:
            if batch.is_tracked:
                edge = self._next_id()
                batch.join([place & PLACE_MASK], np.array([edge], np.uint64))
                self._marks.append((int(batch.roots[place & PLACE_MASK]), edge, self._counted(message)))
                if self._characters >= _MOST_CHARACTERS:
                    self._send_messages()

    def _counted(self, message: str) -> str:
        """A message, shortened, whose characters count for the size of the batch."""
        if len(message) > MAX_MESSAGE:
            message = message[: MAX_MESSAGE - 1] + "…"
        self._characters += len(message)
        return message

    def _send_messages(self) -> None:
        """Sends fails and marks, which have many characters; without acks, which may still be removed."""
        fails, messages = self._taken_fails()
        roots, vals, texts = self._taken_marks()
        self.acks.send(
            Entries(fail_roots=fails, fail_messages=messages, mark_roots=roots, mark_vals=vals, mark_messages=texts)
        )

    def reset(self, root: int) -> None:
        """Buffers the reset of a tree's clock."""
        self._resets.append(root)

    def flush(self) -> None:
        """Sends everything. This order is the guarantee.

        Tuples for steps of this task are passed on, and counted as open; then inputs are done, if nothing is open that
        was made of them. All edges of what leaves the task join their inputs before the vals of inits and acks are
        computed, and tuples are sent before the acks of their inputs.
        """
        self.handle_reports()
        self.pass_on()
        for each in self.settlements:
            each.count()
        self._count_links()
        for each in self.settlements:
            each.settle()
        self._let_leave()
        sealed = [(pack, pack.seal(self._next_id)) for pack in self._open]
        self._open.clear()
        inits, acks = self._inits(), self._acks()
        ended = self.acks.inputs.take_ended()
        if self._inits_first and len(inits[0]):
            self.acks.send(Entries(*inits))
            self.acks.wait()
            inits = NO_IDS, NO_IDS
        for pack, columns in sealed:
            self._send_packs(pack, columns)
        self.handle_reports()  # of tuples that cannot be encoded
        resets, self._resets = self._resets, []
        fails, messages = self._taken_fails()
        marked, vals, texts = self._taken_marks()
        entries = Entries(*inits, *acks, fails, messages, _column(resets), marked, vals, texts)
        self.acks.send(entries, ended)

    def link(self, places: Iterable[Place]) -> None:
        """Notes inputs that a tuple was emitted for: in a transaction they are done together."""

    def unanchored(self, _call: Sequence[Place], trace_context: Headers) -> Place:
        """The place of a tuple without a tree; in a transaction it leaves with the inputs whose call emits it."""
        return InputBatch(trace_context, is_tracked=False) if trace_context else NO_TREES, 0

    def write(self, _pack: InputPack, indices: Sequence[int], send: Callable[[Sequence[int]], object]) -> None:
        """Writes a record for each of some tuples of a pack; `send` is called with positions in `indices`.

        In a transaction each record leaves with its input.
        """
        send(range(len(indices)))

    def check_room(self) -> None:
        """Raises `FailTupleError` if too much waits for the transactions of its inputs."""

    def _count_links(self) -> None:
        """Counts at each linked input that another one is open; called before inputs are settled."""

    def _let_leave(self) -> None:
        """Puts aside what does not leave the task with this flush; called after inputs are settled."""

    def handle_reports(self) -> None:
        """Fails the trees of tuples that were not delivered: they cannot complete, and would time out."""
        while self._reports:
            self._undelivered(*self._reports.popleft())

    def _send(self, pack: OpenPack) -> None:
        """Sends the tuples of a pack before all others, or passes them to a chained bolt."""
        if pack.step is not None:
            del self._open[pack]
            try:
                pack.step.take(pack)
            finally:
                if pack.size:  # out of memory: a later flush passes on what was not taken
                    self._open[pack] = None
            return
        columns = pack.seal(self._next_id)
        del self._open[pack]
        self._send_packs(pack, columns)

    def _taken_fails(self) -> tuple[IdColumn, Sequence[str]]:
        fails, messages = self._fails, self._fail_messages
        self._fails, self._fail_messages, self._characters = [], [], 0
        return _column(fails), messages

    def _taken_marks(self) -> tuple[IdColumn, IdColumn, Sequence[str]]:
        marks, self._marks = self._marks, []
        roots, vals, messages = zip(*marks, strict=True) if marks else ((), (), ())
        return _column(roots), _column(vals), messages

    def _inits(self) -> tuple[IdColumn, IdColumn]:
        begun = self.begun.take()
        if self.trees is not None:
            return _columns(self.trees.inits([(batch, as_column(at)) for batch, at in begun]))
        return _columns([(batch.roots[at], batch.vals(at)) for batch, at in begun])

    def _acks(self) -> tuple[IdColumn, IdColumn]:
        return _columns([(batch.roots[at], batch.vals(at)) for batch, at in self.acked.take()])

    def _send_packs(self, pack: OpenPack, columns: Columns) -> None:
        rows, size, place = len(columns.rows), 0, 0
        pack.counters.transferred += rows
        keys = pack.take_keys(rows)
        for made in packs(columns, pack.codec.encode, pack.most):
            self._send_pack(pack, made, keys.get(place))
            place += len(made.part.rows)
            size += made.size
        if size:
            pack.fitting = max(1, min(pack.most_rows, MAX_BYTES * rows // size))
            pack.limit = min(pack.fitting, GROWTH * pack.limit)

    def _send_pack(self, pack: OpenPack, made: Pack, key: bytes | None) -> None:
        roots, rows = made.part.anchors.roots, len(made.part.rows)
        if made.error is not None:
            self._reports.append((roots, rows, made.error, None))
            return
        headers: Headers = [*made.headers, pack.source, *pack.trace_context]
        undelivered = partial(self._report, roots, rows)
        self._sink.send(pack.topic, pack.task, key, made.payload, headers, undelivered)

    def _report(self, roots: Any, tuples: int, error: Any, message: Any) -> None:
        self._reports.append((roots, tuples, error, message))

    def _undelivered(self, roots: Any, tuples: int, error: Any, message: Any) -> None:
        counters = self._counters
        counters.undelivered += tuples
        if not len(roots):
            topic = "" if message is None else f" for {message.topic()}[{message.partition()}]"
            text = "%d untracked tuples%s were not delivered and are lost: %s (%d tuples so far)"
            what = (tuples, topic, error, counters.undelivered)
            logger.warning(text, *what)
            return
        cause = f"{type(error).__name__}: {error}" if isinstance(error, Exception) else str(error)
        text = undelivered(self.component, cause)
        for root in dict.fromkeys(map(int, roots)):
            self.fail(root, text)
        if message is not None and is_refused(error):
            # Each replay would end like this one.
            sent = f"a tuple of {self.component}"
            self.acks.failure = DeliveryError(sent, message.topic(), message.partition(), error)


def _column(roots: Sequence[int]) -> IdColumn:
    return np.array(roots, np.uint64) if roots else NO_IDS


def _columns(pairs: Sequence[tuple[IdColumn, IdColumn]]) -> tuple[IdColumn, IdColumn]:
    """Roots and vals, each as one column."""
    if len(pairs) == 1:
        return pairs[0]
    if not pairs:
        return NO_IDS, NO_IDS
    roots, vals = zip(*pairs, strict=True)
    return np.concatenate(roots), np.concatenate(vals)
