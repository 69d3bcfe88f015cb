"""What `build()` checks of numbers, groupings, tick intervals and the streams of external components."""

from collections.abc import Mapping, Sequence
from math import ceil, isfinite
from typing import Any, Final

from spout_sdk.api.components import ArrowBolt, BatchBolt
from spout_sdk.bolts.async_bolt import AsyncBolt
from spout_sdk.errors import TopologyError
from spout_sdk.windows.bolt import WindowedBolt
from tuple_tree.manifest import BoltManifest, Manifest, SpoutManifest

_GROUPABLE: Final = frozenset({"string", "bytes", "int", "long", "boolean", "null", "enum", "fixed"})
_LONGEST_TICK_MS: Final = 1_000


def default_tick_ms(spouts: Sequence[SpoutManifest]) -> int:
    """A tick of at most a second whose multiples meet the smallest message timeout, to within rounding."""
    smallest = min(spout.timeout_ms for spout in spouts)
    return ceil(smallest / ceil(smallest / _LONGEST_TICK_MS))


def millis(setting: str, seconds: float) -> int:
    """Seconds as whole milliseconds.

    Raises:
        TopologyError: if they are no finite number, or less than a millisecond.
    """
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not isfinite(seconds):
        raise TopologyError(f"{setting} is {seconds!r}: it must be a finite number of seconds")
    millis = round(seconds * 1000)
    if millis < 1:
        raise TopologyError(f"{setting} is {seconds} seconds: it must be at least a millisecond")
    return millis


def at_least_one(setting: str, number: int) -> int:
    """Returns the number.

    Raises:
        TopologyError: if it is no whole number of at least 1.
    """
    if isinstance(number, bool) or not isinstance(number, int):
        raise TopologyError(f"{setting} is {number!r}: it must be a whole number")
    if number < 1:
        raise TopologyError(f"{setting} is {number}: it must be at least 1")
    return number


def check_ticks(bolt: str, made: Any, tick_interval: float | None) -> None:
    """Rejects an interval where nothing would be called with the tick tuples, or a window would lose its own."""
    made = made if isinstance(made, type) else type(made)
    if issubclass(made, WindowedBolt) and tick_interval is not None:
        raise TopologyError(
            f"bolt {bolt!r} is a WindowedBolt and given tick_interval: leave it out, its window sets the interval"
        )
    if issubclass(made, AsyncBolt) and tick_interval is not None:
        raise TopologyError(f"bolt {bolt!r} is an AsyncBolt, which has no tick tuples: leave tick_interval out")
    interval = getattr(made, "tick_interval", None) if tick_interval is None else tick_interval
    if issubclass(made, BatchBolt | ArrowBolt) and interval is not None:
        raise TopologyError(
            f"bolt {bolt!r} is called with batches only, as a BatchBolt and an ArrowBolt are: leave tick_interval out, "
            "or use a Bolt"
        )


def _is_groupable(type_: Any) -> bool:
    if isinstance(type_, (list, tuple)):
        return all(map(_is_groupable, type_))
    if isinstance(type_, Mapping):
        return "logicalType" not in type_ and _is_groupable(type_["type"])
    return type_ in _GROUPABLE


def check_groupable(manifest: Manifest, bolt: BoltManifest) -> None:
    """Checks that a bolt groups by fields whose values have one form in every language.

    Raises:
        TopologyError: if it does not.
    """
    for subscription in bolt.subscriptions:
        types: Mapping[str, Any] = {
            field.name: field.type for field in manifest.stream(subscription.source, subscription.stream).fields
        }
        for field in subscription.fields:
            type_ = types[field]
            if not _is_groupable(type_):
                raise TopologyError(
                    f"bolt {bolt.name!r} groups {subscription.source!r} by {field!r}, whose type is {type_}: group by "
                    "text, bytes, an integer, a boolean, or one of these or null"
                )
