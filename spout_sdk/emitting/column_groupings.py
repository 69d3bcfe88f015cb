"""Groupings of whole columns, those of the user's included: which tasks of a bolt receive which rows."""

from typing import Any

import numpy as np

from spout_sdk.emitting.groupings import CustomFactory, choose_for
from tuple_tree.column_routing import ChooseRows, Share, choose_rows_for
from tuple_tree.manifest import Subscription
from tuple_tree.packs import PackCodec


def choose_rows(
    codec: PackCodec,
    subscription: Subscription,
    tasks: int,
    field_names: tuple[str, ...],
    start: int,
    factory: CustomFactory | None = None,
) -> ChooseRows:
    """The grouping of a subscription; arguments as those of `groupings.choose_for`."""
    found = choose_rows_for(codec, subscription, tasks, field_names, start)
    if found is not None:
        return found
    if subscription.grouping == "direct":

        def refuse(_batch: Any) -> list[Share]:
            raise TypeError("it is direct: an ArrowBolt cannot name each row's task; use a Bolt or a BatchBolt")

        return refuse
    choose = choose_for(subscription, tasks, field_names, start, factory)

    def choose_each(batch: Any) -> list[Share]:
        chosen = [choose(values)[1] for values in codec.rows(batch)]
        receivers = sorted({task for each in chosen for task in each})
        return [(task, np.array([row for row, each in enumerate(chosen) if task in each])) for task in receivers]

    return choose_each
