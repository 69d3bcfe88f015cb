"""The outbox of a task that works in transactions: what was made of an input leaves when the input is done (ADR 47)."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final

from spout_sdk.api.tuples import InputPack
from spout_sdk.emitting.buffer import Place
from spout_sdk.emitting.open_pack import OpenPack
from spout_sdk.emitting.outbox import Outbox
from spout_sdk.errors import FailTupleError
from spout_sdk.records import Headers
from tuple_tree.input_batch import NO_BATCH, PLACE_MASK, AwaitedBatch, InputBatch, as_column
from tuple_tree.packs import MAX_ROWS

MOST_WAITING: Final = 1_000_000  # tuples and records of open inputs of a task; they take some hundred megabytes

Leave = Callable[[], object]


class TransactionalOutbox(Outbox):
    """Tuples and records of open inputs wait, by the input that the task has read, until it is done.

    So a transaction has all outputs of the inputs that it commits, and none of others: these are read again after a
    crash, and emit again. Inputs that a tuple is anchored to together are linked: they are done together.
    """

    is_transactional = True

    def __init__(self, *task: Any, **settings: Any) -> None:
        super().__init__(*task, **settings)
        self._waiting: dict[InputBatch, dict[int, list[Leave]]] = {}
        self._written: list[tuple[InputPack, Sequence[int], Callable[[Sequence[int]], object]]] = []
        self._groups: dict[Place, list[Place]] = {}  # of inputs that are done together
        self._linked: list[Place] = []  # the inputs of groups that have an open one
        self._size = 0  # how many tuples and records wait

    def check_room(self) -> None:
        if self._size + len(self._written) + sum(pack.size for pack in self._open) >= MOST_WAITING:
            raise FailTupleError(
                f"{MOST_WAITING:,} tuples and records of open inputs wait in a task of {self.component}: in a "
                "transaction (exactly_once, or a bolt with a state) they leave when their inputs are done. Ack inputs "
                "sooner, or emit less for each"
            )

    def _send_full(self, packs: Sequence[OpenPack]) -> None:
        """Lets packs grow until the next flush.

        Raises:
            FailTupleError: if there is no room: the input that is executed fails.
        """
        if not packs:
            return
        super()._send_full([pack for pack in packs if pack.step is not None])
        for pack in packs:
            if pack.step is None and pack.size >= pack.limit:
                pack.limit += MAX_ROWS
        self.check_room()

    def link(self, places: Iterable[Place]) -> None:
        group: list[Place] = []
        for each in dict.fromkeys(batch.head(place) for batch, place in places):
            if (other := self._groups.setdefault(each, [each])) is not group:
                group, other = (group, other) if len(group) > len(other) else (other, group)
                group += other
                self._groups |= dict.fromkeys(other, group)

    def unanchored(self, call: Sequence[Place], trace_context: Headers) -> Place:
        if len(call) > 1:
            self.link(call)
        return (AwaitedBatch(call[0], trace_context), 0) if call else super().unanchored(call, trace_context)

    def write(self, pack: InputPack, indices: Sequence[int], send: Callable[[Sequence[int]], object]) -> None:
        if pack.batch.is_tracked:
            self._written.append((pack, indices, send))
        else:
            super().write(pack, indices, send)

    def _count_links(self) -> None:
        groups = {id(group): group for group in self._groups.values()}.values()
        _count_open(self._linked, -1)
        self._groups, self._linked = {}, []
        for group in groups:
            if any(batch.has_open(places) is not None for batch, places in _by_batch(group)):
                self._groups |= dict.fromkeys(group, group)
                self._linked += group
        _count_open(self._linked, 1)

    def _let_leave(self) -> None:
        """Puts tuples of open inputs aside, and lets those leave whose inputs are done; records alike."""
        written, self._written = self._written, []
        for of, indices, send in written:
            if not self._waiting and of.batch.has_open(of.places_of(indices)) is None:
                send(range(len(indices)))
            else:
                for at, index in enumerate(indices):
                    self._wait([(of.batch, place) for place in of.places(index)], partial(send, (at,)))
        for pack in [each for each in self._open if self._waiting or _has_open(each)]:
            self._put_aside(pack)
        for head, waiting in [*self._waiting.items()]:
            is_open = head.has_open([*waiting])
            for at, place in enumerate([*waiting]):
                if is_open is None or not is_open[at]:
                    leaving = waiting.pop(place)
                    self._size -= len(leaving)
                    for leave in leaving:
                        leave()
            if not waiting:
                del self._waiting[head]
        for each in self.settlements:  # the input of a record that is refused fails with this flush
            each.writes.handle()

    def _send(self, pack: OpenPack) -> None:
        if pack.step is None:  # its tuples are of another trace than the next one
            self._put_aside(pack)
        else:
            super()._send(pack)

    def _put_aside(self, pack: OpenPack) -> None:
        del self._open[pack]
        for row, key, places in pack.take_each():
            self._wait(places, partial(self._put_back, pack, pack.trace_context, row, key, places))

    def _put_back(self, pack: OpenPack, trace_context: Headers, *tuple_: Any) -> None:
        if pack.size and pack.trace_context != trace_context:
            super()._send(pack)
        pack.trace_context = trace_context
        self._open[pack] = None
        pack.put(*tuple_)

    def _wait(self, places: Sequence[Place], leave: Leave) -> None:
        batch, at = places[0] if places else (NO_BATCH, 0)  # if there are others, they are done at the same time
        head, place = batch.head(at & PLACE_MASK)
        self._waiting.setdefault(head, {}).setdefault(place, []).append(leave)
        self._size += 1


def _has_open(pack: OpenPack) -> bool:
    return any(batch.has_open(as_column(places) & PLACE_MASK) is not None for batch, places in pack.runs)


def _by_batch(places: Iterable[Place]) -> Iterable[tuple[InputBatch, list[int]]]:
    found: dict[InputBatch, list[int]] = {}
    for batch, place in places:
        found.setdefault(batch, []).append(place)
    return found.items()


def _count_open(places: Iterable[Place], change: int) -> None:
    for batch, at in _by_batch(places):
        batch.count_open(at, change)
