"""Groupings: which tasks of a bolt receive a tuple, or the rows of a record batch."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import cycle, islice
from typing import Any, Final

import numpy as np

from tuple_tree.manifest import Subscription
from tuple_tree.payloads import PackCodec
from tuple_tree.routing import ChooseRows, Share, choose_rows_for, fields_task, grouping_key, partial_key_tasks

Choice = tuple[bytes | None, tuple[int, ...]]  # the record's key, and the tasks that receive a copy

Choose = Callable[[Sequence[Any]], Choice]
"""Picks the tasks for the values of a tuple; raises `TypeError` for values that cannot be grouped by."""

ChooseOne = Callable[[Sequence[Any]], int]
"""Picks the only task, for groupings that always have one; raises as `Choose`."""

_KNOWN_VALUES: Final = 10_000


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
"""Makes the instance of a task that emits: a class, or anything that is called without arguments."""

Groupings = Mapping[tuple[str, str, str], CustomFactory]
"""Custom groupings by emitting component, stream and receiving bolt."""


def choose_for(
    subscription: Subscription,
    tasks: int,
    field_names: tuple[str, ...],
    start: int,
    factory: CustomFactory | None = None,
) -> tuple[Choose, ChooseOne | None]:
    """The grouping of a subscription, of a bolt with so many tasks, to a stream with these fields.

    The second chooses as the first, without the key; None for groupings that do not always pick one task. A shuffle
    begins at `start`, which differs between senders, so that many do not send to the same task at a time.
    """
    positions = tuple(field_names.index(name) for name in subscription.fields)
    match subscription.grouping:
        case "shuffle" | "local_or_shuffle" | "none":
            turns: list[Choice] = [(None, (task,)) for task in range(tasks)]
            following = islice(cycle(turns), start % tasks, None).__next__
            # The second argument of a call of `next` is what it returns at the end, and there is none.
            return lambda _values: following(), partial(next, islice(cycle(range(tasks)), start % tasks, None))
        case "fields" if len(positions) == 1:
            return _by_field(tasks, positions[0])
        case "fields":
            return _by_fields(tasks, positions)
        case "partial_key":
            return _partial_key(tasks, positions), None
        case "global":
            return lambda _values: (None, (0,)), lambda _values: 0
        case "all":
            choice: Choice = (None, tuple(range(tasks)))
            return lambda _values: choice, None
        case "direct":
            return _direct, None
        case "custom":
            if factory is None:
                raise ValueError("a custom grouping lives in the topology's code, and this one is not there")
            return _custom(factory(), tasks, field_names), None


def choose_rows(
    codec: PackCodec,
    subscription: Subscription,
    tasks: int,
    field_names: tuple[str, ...],
    start: int,
    choose: Choose,
) -> ChooseRows:
    """The grouping `choose` of `choose_for`, for the rows of a record batch."""
    known = choose_rows_for(codec, subscription, tasks, field_names, start)
    if known is not None:
        return known

    def choose_each(batch: Any) -> list[Share]:
        chosen = [choose(values)[1] for values in codec.rows(batch)]
        receivers = sorted({task for each in chosen for task in each})
        return [(task, np.array([row for row, each in enumerate(chosen) if task in each])) for task in receivers]

    return choose_each


def _by_field(tasks: int, position: int) -> tuple[Choose, ChooseOne]:
    single = [(task,) for task in range(tasks)]
    known: dict[str, int] = {}

    def choose(values: Sequence[Any]) -> Choice:
        value = values[position]
        # The common case, spelled out: `grouping_key` of one text is its UTF-8.
        key = value.encode() if value.__class__ is str else grouping_key((value,))
        return key, single[fields_task(key, tasks)]

    def choose_one(values: Sequence[Any]) -> int:
        value = values[position]
        if value.__class__ is not str:
            return fields_task(grouping_key((value,)), tasks)
        task = known.get(value)
        if task is None:
            task = fields_task(value.encode(), tasks)
            if len(known) < _KNOWN_VALUES:
                known[value] = task
        return task

    return choose, choose_one


def _by_fields(tasks: int, positions: tuple[int, ...]) -> tuple[Choose, ChooseOne]:
    def choose(values: Sequence[Any]) -> Choice:
        key = grouping_key([values[position] for position in positions])
        return key, (fields_task(key, tasks),)

    def choose_one(values: Sequence[Any]) -> int:
        return fields_task(grouping_key([values[position] for position in positions]), tasks)

    return choose, choose_one


def _partial_key(tasks: int, positions: tuple[int, ...]) -> Choose:
    sent = [0] * tasks

    def choose(values: Sequence[Any]) -> Choice:
        key = grouping_key([values[position] for position in positions])
        first, second = partial_key_tasks(key, tasks)
        task = first if sent[first] <= sent[second] else second
        sent[task] += 1
        return key, (task,)

    return choose


def _custom(grouping: CustomGrouping, tasks: int, field_names: tuple[str, ...]) -> Choose:
    grouping.tasks, grouping.fields = tasks, field_names
    grouping.prepare()
    name = type(grouping).__name__

    def choose(values: Sequence[Any]) -> Choice:
        chosen = tuple(grouping.choose(values))
        for task in chosen:
            if not (isinstance(task, int) and 0 <= task < tasks):
                raise TypeError(f"{name}.choose() returned task {task!r}: the bolt has {tasks}, numbered from 0")
        if len(set(chosen)) < len(chosen):
            raise TypeError(f"{name}.choose() returned {chosen}: each task may receive one copy")
        return None, chosen

    return choose


def _direct(_values: Sequence[Any]) -> Choice:
    raise TypeError(
        "it is direct: use emit_direct, and say which task receives the tuple; an ArrowBolt cannot, so use a Bolt or a "
        "BatchBolt"
    )
