"""Settings of a topology that depend on its `AsyncBolt`s: the largest tree age, and the stop timeout."""

from collections.abc import Mapping, Sequence
from typing import Any

from spout_sdk.api.topology import STOP_TIMEOUT
from spout_sdk.bolts.async_bolt import AsyncBolt
from spout_sdk.bolts.async_settings import AsyncSettings, time_limit
from tuple_tree.components import SpoutManifest
from tuple_tree.manifest import MAX_TREE_AGE_TICKS, TREE_AGE_TIMEOUTS, Guarantee, Manifest


def default_tree_age_ms(
    spouts: Sequence[SpoutManifest], tick_ms: int, guarantee: Guarantee, made: Mapping[str, Any]
) -> int:
    """The default of the largest tree age in milliseconds, which includes the time limits of all `AsyncBolt`s.

    A tree may pass through all of them. The age is no larger than a ledger can hold.
    """
    timeouts_ms = TREE_AGE_TIMEOUTS * max(spout.timeout_ms for spout in spouts)
    if guarantee == "at_most_once":
        return timeouts_ms
    limits_ms = round(1000 * sum(time_limit(name, bolt) for name, bolt in _async_bolts(made)))
    return max(timeouts_ms, min(timeouts_ms + limits_ms, MAX_TREE_AGE_TICKS * tick_ms))


def longest_stop(manifest: Manifest, made: Mapping[str, Any]) -> float:
    """Checks the settings of all `AsyncBolt`s; returns the longest stop timeout of a bolt in seconds."""
    own = (AsyncSettings.of(name, bolt, manifest).stop_timeout for name, bolt in _async_bolts(made))
    return max((STOP_TIMEOUT, *own))


def _async_bolts(made: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [
        (name, bolt)
        for name, bolt in made.items()
        if isinstance(bolt, AsyncBolt) or (isinstance(bolt, type) and issubclass(bolt, AsyncBolt))
    ]
