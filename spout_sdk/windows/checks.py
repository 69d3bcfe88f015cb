"""What is wrong with windows is found when the topology is built."""

import logging
from collections.abc import Mapping
from typing import Any

from spout_sdk.errors import TopologyError
from spout_sdk.windows.bolt import WindowedBolt
from spout_sdk.windows.specs import WindowSpec
from tuple_tree.manifest import Manifest, SpoutManifest

logger = logging.getLogger("spout_sdk.windows")


def check_windows(manifest: Manifest, factories: Mapping[str, Any]) -> None:
    """Checks the windows of every bolt against the spouts whose tuples reach it.

    Raises:
        TopologyError: if a bolt declares no windows, holds tuples until they time out, or holds them in a topology that
            is `exactly_once`.
    """
    for bolt in manifest.bolts:
        spec = None if bolt.external else _spec(bolt.name, factories[bolt.name])
        if spec is None:
            continue
        if manifest.guarantee == "exactly_once":
            raise TopologyError(
                f"bolt {bolt.name!r} holds tuples in windows ({spec}), but in an exactly_once topology every input is "
                "settled in the transaction that read it: use at_least_once, or a bolt without windows"
            )
        if manifest.acking:
            spouts = _spouts_upstream(manifest, bolt.name)
            for spout in spouts:
                _check_timeout(bolt.name, spec, spout)
            _warn_if_never_full(manifest, bolt.name, spec, spouts)


def _spec(name: str, factory: Any) -> WindowSpec | None:
    """The windows of what the factory makes; None if that is no `WindowedBolt`.

    They may depend on arguments, so one is made to see; of other classes none is.
    """
    made: Any = factory
    while hasattr(made, "func"):  # functools.partial
        made = made.func
    if isinstance(made, type) and not issubclass(made, WindowedBolt):
        return None
    try:
        bolt = factory()
    except Exception as error:  # whatever a user's bolt raises
        raise TopologyError(
            f"bolt {name!r} cannot be made to see its windows: {type(error).__name__}: {error}; what it needs of the "
            "place where it runs belongs in prepare()"
        ) from error
    if not isinstance(bolt, WindowedBolt):
        return None
    spec = getattr(bolt, "window", None)
    if not isinstance(spec, WindowSpec):
        raise TopologyError(
            f"bolt {name!r} is a WindowedBolt without windows: declare them in its class, "
            "such as window = tumbling(count=100)"
        )
    return spec


def _spouts_upstream(manifest: Manifest, bolt: str) -> list[SpoutManifest]:
    """The spouts whose trees may reach the bolt."""
    seen = {bolt}
    ahead = [bolt]
    while ahead:
        component = manifest.component(ahead.pop())
        for subscription in getattr(component, "subscriptions", ()):
            if subscription.source not in seen:
                seen.add(subscription.source)
                ahead.append(subscription.source)
    return [spout for spout in manifest.spouts if spout.name in seen]


def _check_timeout(bolt: str, spec: WindowSpec, spout: SpoutManifest) -> None:
    hold = spec.longest_hold
    timeout = spout.timeout_ms / 1000
    if hold is not None and hold >= timeout:
        raise TopologyError(
            f"bolt {bolt!r} with {spec} holds a tuple for up to {hold:g} seconds (its length, and what a window may "
            f"close late), but tuples of spout {spout.name!r} reach it, which time out after {timeout:g} seconds: "
            f"shorten the window, or set a message_timeout above {hold:g} seconds"
        )


def _warn_if_never_full(manifest: Manifest, bolt: str, spec: WindowSpec, spouts: list[SpoutManifest]) -> None:
    """Says that a window by count is larger than what spouts may have open, where that can be told.

    It can where only spouts feed the bolt: each open tree has one tuple for a task then. It is no error even so: tuples
    that are not tracked are not counted as open.
    """
    fed_by = {subscription.source for subscription in getattr(manifest.component(bolt), "subscriptions", ())}
    if spec.count is None or spec.flush_after is not None or fed_by != {spout.name for spout in spouts}:
        return
    room = sum(spout.tasks * spout.max_pending for spout in spouts)
    # By the clock, a window lets a tuple go when one more comes than it holds.
    needed = spec.count + 1 if spec.every_count is None else spec.count
    if needed > room:
        logger.warning(
            "bolt %r with %s waits for %d tuples, but its spouts may have only %d open: unless they emit untracked "
            "tuples it waits until some have timed out; make the window smaller, raise max_spout_pending%s",
            bolt,
            spec,
            needed,
            room,
            ", or set flush_after" if spec.is_tumbling else "",
        )
