"""The settings of an `AsyncBolt`, checked."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from spout_sdk.arguments import check_count, check_seconds
from spout_sdk.errors import TopologyError
from tuple_tree.manifest import Manifest

DEFAULT_TIME_LIMIT: Final = 1_800.0
"""Default of `time_limit`, in seconds: as long as one `execute` of another bolt may take."""

_UNORDERED: Final = ("array", "map", "record")  # types whose values are not keys


@dataclass(frozen=True, slots=True)
class AsyncSettings:
    """The settings of an `AsyncBolt`.

    Attributes:
        concurrency: how many inputs of a task are executed at a time.
        time_limit: seconds after which a coroutine is cancelled.
        stop_timeout: seconds for which a stop waits for running coroutines.
        ordered_by: fields by which inputs are executed one after another; empty for no order.
    """

    concurrency: int
    time_limit: float
    stop_timeout: float
    ordered_by: tuple[str, ...]

    @classmethod
    def of(cls, name: str, bolt: Any, manifest: Manifest) -> "AsyncSettings":
        """The settings of the bolt with this name.

        Raises:
            TopologyError: if one is invalid, or does not fit the topology.
        """
        limit, age = time_limit(name, bolt), manifest.max_tree_age_ms / 1000
        if manifest.acking and bolt.time_limit is None:
            limit = min(limit, age)
        if manifest.acking and limit > age:
            raise TopologyError(
                f"time_limit of bolt {name!r} is {limit:g} s, but its trees fail at max_tree_age, {age:g} s, and are "
                "replayed: raise max_tree_age of the TopologyBuilder, or leave it out: it is then at least that long"
            )
        ordered_by = (bolt.ordered_by,) if isinstance(bolt.ordered_by, str) else tuple(bolt.ordered_by)
        for field in ordered_by:
            _check_order(manifest, name, field)
        return cls(
            check_count(f"concurrency of bolt {name!r}, an AsyncBolt,", bolt.concurrency),
            limit,
            check_seconds(f"stop_timeout of bolt {name!r}", bolt.stop_timeout, least=0.0),
            ordered_by,
        )


def time_limit(name: str, bolt: Any) -> float:
    """The time limit of an `AsyncBolt` in seconds; raises `TopologyError` if it is invalid."""
    if bolt.time_limit is None:
        return DEFAULT_TIME_LIMIT
    return check_seconds(f"time_limit of bolt {name!r}", bolt.time_limit)


def _check_order(manifest: Manifest, name: str, field: str) -> None:
    for subscription in getattr(manifest.component(name), "subscriptions", ()):
        source, stream = subscription.source, manifest.stream(subscription.source, subscription.stream)
        if field not in stream.field_names:
            raise TopologyError(
                f"bolt {name!r} is ordered_by {field!r}, a field that stream {stream.name!r} of {source!r} does not "
                f"have: it has {', '.join(stream.field_names)}"
            )
        if not _is_key(type_ := stream.field_types[field]):
            raise TopologyError(
                f"bolt {name!r} is ordered_by {field!r} of {source!r}, whose type is {type_}: use fields with text, "
                "bytes, numbers or booleans"
            )


def _is_key(type_: Any) -> bool:
    if isinstance(type_, (list, tuple)):
        return all(map(_is_key, type_))
    return _is_key(type_["type"]) if isinstance(type_, Mapping) else type_ not in _UNORDERED
