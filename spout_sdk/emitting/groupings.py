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

Choose = Callable[[Sequence[Any]], tuple[int, ...]]
"""Picks the tasks that receive a copy, by the values of a tuple; raises `TypeError` for values that do not fit."""

ChooseOne = Callable[[Sequence[Any]], int]
"""Picks the only task, for groupings that always have one; raises as `Choose`."""

KeyOf = Callable[[Sequence[Any]], bytes]

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

    The second chooses as the first; None for groupings that do not always pick one task. A shuffle begins at `start`,
    which differs between senders, so that many do not send to the same task at a time.
    """
    key_of = key_for(subscription, field_names)
    choose_one: ChooseOne
    match subscription.grouping:
        case "shuffle" | "local_or_shuffle" | "none":
            # The second argument of a call of `next` is what it returns at the end, and there is none.
            choose_one = partial(next, islice(cycle(range(tasks)), start % tasks, None))
        case "fields" if len(subscription.fields) == 1:
            choose_one = _by_field(tasks, key_of, field_names.index(subscription.fields[0]))
        case "fields":
            choose_one = lambda values: fields_task(key_of(values), tasks)  # noqa: E731
        case "global":
            choose_one = lambda _values: 0  # noqa: E731
        case "partial_key":
            return _by_partial_key(tasks, key_of), None
        case "all":
            everyone = tuple(range(tasks))
            return lambda _values: everyone, None
        case "direct":
            return _direct, None
        case "custom":
            if factory is None:
                raise ValueError("a custom grouping lives in the topology's code, and this one is not there")
            return _custom(factory(), tasks, field_names), None
    alone = [(task,) for task in range(tasks)]
    return lambda values: alone[choose_one(values)], choose_one


def key_for(subscription: Subscription, field_names: tuple[str, ...]) -> KeyOf:
    """Makes the key of a record of one tuple, of its grouping fields; raises `TypeError` for values that do not fit."""
    positions = tuple(field_names.index(name) for name in subscription.fields)
    return lambda values: grouping_key([values[position] for position in positions])


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
        chosen = [choose(values) for values in codec.rows(batch)]
        receivers = sorted({task for each in chosen for task in each})
        return [(task, np.array([row for row, each in enumerate(chosen) if task in each])) for task in receivers]

    return choose_each


def _by_field(tasks: int, key_of: KeyOf, position: int) -> ChooseOne:
    known: dict[str, int] = {}

    def choose_one(values: Sequence[Any]) -> int:
        value = values[position]
        if value.__class__ is not str:
            return fields_task(key_of(values), tasks)
        task = known.get(value)
        if task is None:
            task = fields_task(key_of(values), tasks)
            if len(known) < _KNOWN_VALUES:
                known[value] = task
        return task

    return choose_one


def _by_partial_key(tasks: int, key_of: KeyOf) -> Choose:
    sent = [0] * tasks

    def choose(values: Sequence[Any]) -> tuple[int, ...]:
        first, second = partial_key_tasks(key_of(values), tasks)
        task = first if sent[first] <= sent[second] else second
        sent[task] += 1
        return (task,)

    return choose


def _custom(grouping: CustomGrouping, tasks: int, field_names: tuple[str, ...]) -> Choose:
    grouping.tasks, grouping.fields = tasks, field_names
    grouping.prepare()
    name = type(grouping).__name__

    def choose(values: Sequence[Any]) -> tuple[int, ...]:
        chosen = tuple(grouping.choose(values))
        for task in chosen:
            if not (isinstance(task, int) and 0 <= task < tasks):
                raise TypeError(f"{name}.choose() returned task {task!r}: the bolt has {tasks}, numbered from 0")
        if len(set(chosen)) < len(chosen):
            raise TypeError(f"{name}.choose() returned {chosen}: each task may receive one copy")
        return chosen

    return choose


def _direct(_values: Sequence[Any]) -> tuple[int, ...]:
    raise TypeError(
        "it is direct: use emit_direct, and say which task receives the tuple; an ArrowBolt cannot, so use a Bolt or a "
        "BatchBolt"
    )
