"""Values of a topology that follow from its components: times, and the settings by which statistics are judged."""

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any, Final

from spout_sdk.api.needs import needs_of
from spout_sdk.api.topology import STOP_TIMEOUT, BoltOptions
from spout_sdk.operators.async_settings import AsyncSettings, time_limit
from tuple_tree.components import SpoutManifest
from tuple_tree.manifest import MAX_TREE_AGE_TICKS, TREE_AGE_TIMEOUTS, Guarantee, Manifest

_LONGEST_TICK_MS: Final = 1_000


def default_tick_ms(spouts: Sequence[SpoutManifest]) -> int:
    """The largest tick of at most a second that divides the smallest message timeout, up to rounding."""
    smallest = min(spout.timeout_ms for spout in spouts)
    return ceil(smallest / ceil(smallest / _LONGEST_TICK_MS))


def default_tree_age_ms(
    spouts: Sequence[SpoutManifest], tick_ms: int, guarantee: Guarantee, made: Mapping[str, Any]
) -> int:
    """The default of the largest tree age in milliseconds, which includes the time limits of all bolts.

    A tree may pass through all of them. The age is no larger than a ledger can hold.
    """
    timeouts_ms = TREE_AGE_TIMEOUTS * max(spout.timeout_ms for spout in spouts)
    if guarantee == "at_most_once":
        return timeouts_ms
    limits_ms = round(1000 * sum(time_limit(name, of) for name, of in made.items() if needs_of(of).waits))
    return max(timeouts_ms, min(timeouts_ms + limits_ms, MAX_TREE_AGE_TICKS * tick_ms))


def longest_stop(manifest: Manifest, made: Mapping[str, Any]) -> float:
    """Checks the settings of bolts that wait; returns the longest stop timeout of a bolt in seconds."""
    own = (AsyncSettings.of(name, of, manifest).stop_timeout for name, of in made.items() if needs_of(of).waits)
    return max((STOP_TIMEOUT, *own))


def component_settings(made: Mapping[str, Any], options: Mapping[str, BoltOptions]) -> dict[str, dict[str, int]]:
    """The settings of each component that has any: see `Topology.settings`."""
    found = {name: _settings(of, options.get(name)) for name, of in made.items() if of is not None}
    return {name: settings for name, settings in found.items() if settings}


def _settings(made: Any, options: BoltOptions | None) -> dict[str, int]:
    needs, settings = needs_of(made), dict[str, int]()
    if needs.waits:
        settings["concurrency"] = made.concurrency
        if made.time_limit is not None:
            settings["time_limit_ms"] = round(1000 * made.time_limit)
    if needs.windows and made.window.late_stream is not None:
        settings["late_stream"] = 1
    policy = made.retry if needs.positions else options.retry if options is not None else None
    if policy is not None and policy.max_retries is not None:
        settings["max_retries"] = policy.max_retries
    return settings
