"""Groupings: which tasks of a bolt receive a tuple."""

from collections.abc import Callable, Sequence
from itertools import cycle, islice
from typing import Any

from tuple_tree.manifest import Subscription
from tuple_tree.routing import fields_task, grouping_key

Choice = tuple[bytes | None, tuple[int, ...]]
"""The record's key, and the tasks that receive a copy."""

Choose = Callable[[Sequence[Any]], Choice]
"""Picks the tasks for the values of a tuple; raises `TypeError` for values that cannot be grouped by."""


def shuffle(tasks: int, start: int) -> Choose:
    """In turn, from a start that differs between senders, so that many senders do not march in step."""
    turns: list[Choice] = [(None, (task,)) for task in range(tasks)]
    following = islice(cycle(turns), start % tasks, None).__next__

    def choose(_values: Sequence[Any]) -> Choice:
        return following()

    return choose


def fields(tasks: int, positions: tuple[int, ...]) -> Choose:
    """Equal values of the fields always reach the same task."""
    single = [(task,) for task in range(tasks)]
    if len(positions) == 1:
        (position,) = positions

        def choose_by_one(values: Sequence[Any]) -> Choice:
            value = values[position]
            # The common case, spelled out: `grouping_key` of one text is its UTF-8.
            key = value.encode() if value.__class__ is str else grouping_key((value,))
            return key, single[fields_task(key, tasks)]

        return choose_by_one

    def choose(values: Sequence[Any]) -> Choice:
        key = grouping_key([values[position] for position in positions])
        return key, single[fields_task(key, tasks)]

    return choose


def fixed(tasks: tuple[int, ...]) -> Choose:
    """Always the same tasks: the lowest for a global grouping, every one for an all grouping."""
    choice: Choice = (None, tasks)

    def choose(_values: Sequence[Any]) -> Choice:
        return choice

    return choose


def choose_for(subscription: Subscription, tasks: int, field_names: tuple[str, ...], start: int) -> Choose:
    """The grouping of a subscription.

    Args:
        subscription: from the manifest.
        tasks: how many the subscribed bolt has.
        field_names: of the stream.
        start: where a shuffle begins.
    """
    if subscription.grouping == "shuffle":
        return shuffle(tasks, start)
    if subscription.grouping == "fields":
        return fields(tasks, tuple(field_names.index(name) for name in subscription.fields))
    if subscription.grouping == "global":
        return fixed((0,))
    return fixed(tuple(range(tasks)))
