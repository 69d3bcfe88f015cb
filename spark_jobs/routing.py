"""Routing as Spark expressions: which task a tuple goes to, and under which key. The same as `tuple_tree.routing`."""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from spark_jobs.ids import unsigned_mod
from tuple_tree.manifest import Manifest, Subscription

_SEPARATOR: Final = b"\x1f"
_NOTHING: Final = b""


def grouping_key(fields: Sequence[Column]) -> Column:
    """The record key of a fields grouping, binary and never null."""
    parts = [F.coalesce(field.cast("string").cast("binary"), F.lit(_NOTHING)) for field in fields]
    spaced = [parts[0]]
    for part in parts[1:]:
        spaced += [F.lit(_SEPARATOR), part]
    return F.concat(*spaced) if len(spaced) > 1 else spaced[0]


def fields_task(key: Column, tasks: int) -> Column:
    """The task of a key."""
    return unsigned_mod(F.xxhash64(key), tasks)


def routes_of(manifest: Manifest, component: str, stream: str) -> list[tuple[str, int, Subscription]]:
    """Who receives a stream: bolt, its tasks, its subscription."""
    return [
        (bolt.name, bolt.tasks, subscription)
        for bolt in manifest.bolts
        for subscription in bolt.subscriptions
        if (subscription.source, subscription.stream) == (component, stream)
    ]
