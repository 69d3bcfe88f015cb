"""Routing: which acker partition owns a root, and, by groupings, which tasks of a bolt receive which tuples.

Ids and hashes are unsigned everywhere before the modulo: Java's and Spark's signed remainder differs. Groupings of
whole columns choose the same tasks for the same fields; the other groupings give each task a run of rows.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import xxhash

from tuple_tree.anchors import Rows
from tuple_tree.components import Subscription
from tuple_tree.errors import ENDS_PROCESS, describe, shown
from tuple_tree.fields import plain
from tuple_tree.shuffle import SetShares, Share, Shuffle

if TYPE_CHECKING:
    from tuple_tree.arrow_packs import PackCodec

HASH_SEED: Final = 42
_SECOND_SEED: Final = 43
SEPARATOR: Final = b"\x1f"
_KNOWN_VALUES: Final = 10_000


def acker_partition(root: int, partitions: int) -> int:
    """The partition of `{topology}.acks` that holds everything about this root: `root mod P`."""
    return root % partitions


def fields_task(key: bytes, tasks: int) -> int:
    """The task that a fields grouping gives this key: XXH64 with seed 42, unsigned, modulo the tasks."""
    return xxhash.xxh64_intdigest(key, HASH_SEED) % tasks


def partial_key_tasks(key: bytes, tasks: int) -> tuple[int, int]:
    """The two tasks between which a partial key grouping may choose; they differ unless there is only one task.

    The first is that of a fields grouping. The second lies `1 + XXH64(key, seed 43) mod (tasks - 1)` behind it, modulo
    the tasks. Nasir et al., "The Power of Both Choices", 2015: with two choices a key the load of the tasks stays even.
    """
    first = fields_task(key, tasks)
    if tasks == 1:
        return first, first
    return first, (first + 1 + xxhash.xxh64_intdigest(key, _SECOND_SEED) % (tasks - 1)) % tasks


def grouping_key(values: Sequence[object]) -> bytes:
    """The record key of a fields grouping: readable, and the same in every language.

    Text as UTF-8, bytes as they are, integers in decimal, booleans as `true` and `false`, nothing for null; several
    fields are separated by the byte 0x1f. Floating-point values are refused, because languages print them differently.

    Raises `TypeError` for a value that has no such form.
    """
    if len(values) == 1:
        return _key_part(values[0])
    return SEPARATOR.join(map(_key_part, values))


def _key_part(value: object) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes):
        return value
    if isinstance(value, bool):
        return b"true" if value else b"false"
    if isinstance(value, int):
        return b"%d" % value
    if value is None:
        return b""
    if (made := plain(value)) is not value:
        return _key_part(made)
    raise TypeError(
        f"a {type(value).__name__} cannot be grouped by: a grouping field is text, bytes, an integer, a boolean or null"
    )


class CustomGrouping(ABC):
    """A grouping of your own; each task that emits has an instance of it.

    class ByLength(CustomGrouping):
        def choose(self, values):
            return (len(values[0]) % self.tasks,)

    Attributes:
        tasks: how many the receiving bolt has; set before `prepare`.
        fields: names of the stream's fields, in the order of the values; set before `prepare`.
    """

    tasks: int
    fields: tuple[str, ...]

    def prepare(self) -> None:
        """Called once, before the first tuple."""

    @abstractmethod
    def choose(self, values: Sequence[Any]) -> Sequence[int]:
        """The tasks, from 0, that receive a copy; none is allowed, and the tuple goes nowhere then."""


CustomFactory = Callable[[], CustomGrouping]
"""Makes the instance of a task that emits: a class, or a callable without arguments."""

CustomGroupings = Mapping[tuple[str, str, str], CustomFactory]
"""Custom groupings by emitting component, stream and receiving bolt."""

Receivers = Callable[[Sequence[int]], Any]
"""Makes of tasks, by their numbers, what stands for them where tuples are emitted."""
Choose = Callable[[Sequence[Any]], Any]
ChooseRows = Callable[["PackCodec", Any], list[Share]]
KeyOf = Callable[[Sequence[Any]], bytes]
_ALL: Final = slice(None)


class Chooser(NamedTuple):
    """The choices of a grouping for one task that emits; each raises `TypeError` for values that cannot be grouped by.

    Attributes:
        choose: the receivers of a copy, by the values of a tuple.
        choose_rows: the rows of each task, for a record batch of a stream with the codec.
        key_of: the key of a record of one tuple, of its grouping fields; None if it is not grouped by fields.
        set_shares: sets the shares of the tasks; None if it is not a shuffle.
    """

    choose: Choose
    choose_rows: ChooseRows
    key_of: KeyOf | None = None
    set_shares: SetShares | None = None


def chooser(
    subscription: Subscription,
    tasks: int,
    field_names: tuple[str, ...],
    start: int,
    custom: CustomFactory | None = None,
    receivers: Receivers = tuple,
) -> Chooser:
    """The grouping of a subscription, of a bolt with `tasks` tasks, to a stream with these fields.

    A shuffle begins at `start`, which differs between senders, so that many do not send to the same task at a time.
    `choose` returns `receivers` of the chosen tasks: by default, a tuple of their numbers.
    """
    positions = tuple(field_names.index(name) for name in subscription.fields)
    each = [receivers((task,)) for task in range(tasks)]  # made once: most groupings choose one task
    match subscription.grouping:
        case "shuffle" | "local_or_shuffle" | "none":
            shuffle = Shuffle(each, start % tasks)
            return Chooser(shuffle.choose, shuffle.choose_rows, set_shares=shuffle.set_shares)
        case "fields":
            return _fields(each, positions)
        case "partial_key":
            return _partial_key(each, positions)
        case "global" | "local":
            first = each[0]
            return Chooser(lambda _values: first, lambda _codec, _batch: [(0, _ALL)])
        case "all":
            everyone = receivers(range(tasks))
            return Chooser(lambda _values: everyone, lambda _codec, _batch: [(task, _ALL) for task in range(tasks)])
        case "direct":
            return Chooser(_direct, _row_by_row(_direct))
        case "custom":
            if custom is None:
                raise ValueError("a custom grouping lives in the topology's code, and this one is not there")
            choose = _custom(custom(), tasks, field_names)
            return Chooser(lambda values: receivers(choose(values)), _row_by_row(choose))


def _fields(receivers: Sequence[Any], positions: tuple[int, ...]) -> Chooser:
    """Equal values of the fields always reach the same task."""
    key_of, tasks = _key_of(positions), len(receivers)
    known: dict[str, Any] = {}

    def choose_by_field(values: Sequence[Any]) -> Any:
        value = values[positions[0]]
        if value.__class__ is not str:
            return receivers[fields_task(key_of(values), tasks)]
        receiver = known.get(value)
        if receiver is None:
            receiver = receivers[fields_task(key_of(values), tasks)]
            if len(known) < _KNOWN_VALUES:
                known[value] = receiver
        return receiver

    def choose_by_fields(values: Sequence[Any]) -> Any:
        return receivers[fields_task(key_of(values), tasks)]

    def choose_rows(codec: "PackCodec", batch: Any) -> list[Share]:
        codes, keys = keys_of_rows(codec, batch, positions)
        return _shares(codes, [fields_task(key, tasks) for key in keys])

    return Chooser(choose_by_field if len(positions) == 1 else choose_by_fields, choose_rows, key_of)


def _partial_key(receivers: Sequence[Any], positions: tuple[int, ...]) -> Chooser:
    """Equal values of the fields reach one of two tasks; within a batch, that to which less was sent before it."""
    key_of, tasks = _key_of(positions), len(receivers)
    sent = [0] * tasks

    def send(key: bytes, count: int) -> int:
        first, second = partial_key_tasks(key, tasks)
        task = first if sent[first] <= sent[second] else second
        sent[task] += count
        return task

    def choose_rows(codec: "PackCodec", batch: Any) -> list[Share]:
        codes, keys = keys_of_rows(codec, batch, positions)
        return _shares(codes, [*map(send, keys, np.bincount(codes).tolist())])

    return Chooser(lambda values: receivers[send(key_of(values), 1)], choose_rows, key_of)


def _direct(_values: Sequence[Any]) -> tuple[int, ...]:
    raise TypeError(
        "it is direct: use emit_direct, and say which task receives the tuple; an ArrowBolt cannot, so use a Bolt or a "
        "BatchBolt"
    )


def _custom(
    grouping: CustomGrouping, tasks: int, field_names: tuple[str, ...]
) -> Callable[[Sequence[Any]], tuple[int, ...]]:
    grouping.tasks, grouping.fields = tasks, field_names
    grouping.prepare()
    name = type(grouping).__name__

    def choose(values: Sequence[Any]) -> tuple[int, ...]:
        try:
            chosen = tuple(grouping.choose(values))
        except ENDS_PROCESS:
            raise
        except BaseException as error:
            raise TypeError(
                f"{name}.choose() raised {describe(error)}, for {shown(values)}: it returns the numbers of tasks"
            ) from error
        for task in chosen:
            if not (isinstance(task, int) and 0 <= task < tasks):
                raise TypeError(f"{name}.choose() returned task {shown(task)}: the bolt has {tasks}, numbered from 0")
        if len(set(chosen)) < len(chosen):
            raise TypeError(f"{name}.choose() returned {chosen}: each task may receive one copy")
        return chosen

    return choose


def _row_by_row(choose: Callable[[Sequence[Any]], Sequence[int]]) -> ChooseRows:
    def choose_rows(codec: "PackCodec", batch: Any) -> list[Share]:
        chosen = [choose(values) for values in codec.rows(batch)]
        receivers = sorted({task for each in chosen for task in each})
        return [(task, np.array([row for row, each in enumerate(chosen) if task in each])) for task in receivers]

    return choose_rows


def _key_of(positions: tuple[int, ...]) -> KeyOf:
    """A function that returns the `grouping_key` of these fields of a tuple."""
    if len(positions) > 1:
        return lambda values: grouping_key([values[position] for position in positions])
    (position,) = positions

    def key_of(values: Sequence[Any]) -> bytes:
        value = values[position]
        # The common case, spelled out: `grouping_key` of one text is its UTF-8.
        return value.encode() if value.__class__ is str else grouping_key((value,))

    return key_of


def keys_of_rows(codec: "PackCodec", batch: Any, positions: tuple[int, ...]) -> tuple[Rows, list[bytes]]:
    """The key of each row: which of the different ones, shape `(n,)`, and these."""
    codes, values = codec.distinct(batch, positions[0])
    parts = [values]
    first = np.arange(len(values))
    for position in positions[1:]:
        more, values = codec.distinct(batch, position)
        parts.append(values)
        # Arrow's codes have 32 bits; a pair of them needs 64.
        pairs = codes.astype(np.int64) * len(values) + more
        _, first, codes = np.unique(pairs, return_index=True, return_inverse=True)
    if len(parts) == 1:
        return codes, [value if value.__class__ is bytes else grouping_key((value,)) for value in parts[0]]
    rows = batch.take(first)
    columns = [codec.column(rows, position) for position in positions]
    return codes, [grouping_key(key) for key in zip(*columns, strict=True)]


def _shares(codes: Rows, task_of_key: Sequence[int]) -> list[Share]:
    """The rows of each task, given which key each row has."""
    if not len(codes):
        return []
    tasks = np.array(task_of_key, np.intp)[codes]
    order = np.argsort(tasks, kind="stable")
    shares: list[Share] = []
    begin = 0
    for task, end in enumerate(np.cumsum(np.bincount(tasks)).tolist()):
        if end > begin:
            shares.append((task, _ALL if end - begin == len(tasks) else order[begin:end]))
        begin = end
    return shares
