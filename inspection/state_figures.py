"""The figures of a bolt's state, from the statistics of its processes."""

from typing import TypedDict

from spout_sdk.statistics.state_stats import StateStats
from tuple_tree.components import Component
from tuple_tree.manifest import Manifest
from tuple_tree.state_guarantees import known_guarantee


class RestoreFigures(TypedDict):
    """The restore that runs, of all processes together."""

    tasks: list[int]
    done: float  # share of the offsets that are read, from 0 to 1
    records: int  # that it has read
    records_per_second: float
    left: int  # offsets that are not read
    seconds: float  # since it began


class StateFigures(TypedDict):
    """The state of a bolt; null where no process reports it."""

    key: list[str]  # the fields of a key
    guarantee: str  # in words, how often a message changes it
    keys: int | None
    bytes: int | None  # of the stores, in memory or on disk
    identities: int | None  # of applied tuples, whose messages are not known to be done
    restore: RestoreFigures | None  # the restore that runs


def state_figures(manifest: Manifest, component: Component, stats: StateStats | None) -> StateFigures | None:
    state = getattr(component, "state", None)
    if state is None:
        return None
    guarantee = stats.guarantee if stats is not None else ""
    return {
        "key": [field.name for field in state.key],
        "guarantee": guarantee or known_guarantee(manifest, component.name),
        "keys": None if stats is None else stats.keys,
        "bytes": None if stats is None else stats.bytes,
        "identities": None if stats is None else stats.identities,
        "restore": None if stats is None else restore_figures(stats),
    }


def restore_figures(stats: StateStats) -> RestoreFigures | None:
    if not stats.restoring:
        return None
    return {
        "tasks": [*stats.restoring],
        "done": round(stats.restored, 4),
        "records": stats.restore_records,
        "records_per_second": stats.restore_records_per_second,
        "left": stats.restore_left,
        "seconds": stats.restore_seconds,
    }
