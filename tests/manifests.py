"""Manifests of small topologies."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from tuple_tree.components import WINDOW_START, BoltManifest, Component, SpoutManifest, StateManifest, Subscription
from tuple_tree.manifest import Manifest
from tuple_tree.streams import Field, declare


def spout(name: str, fields: Sequence[str] | Mapping[str, Any] = ("word",), **settings: Any) -> SpoutManifest:
    return SpoutManifest(name=name, streams=(declare(fields),), **settings)


def bolt(name: str, *sources: str, **settings: Any) -> BoltManifest:
    """A bolt that receives the default streams of these components."""
    received = (Subscription(source=source, stream="default", grouping="shuffle") for source in sources)
    return BoltManifest(name=name, subscriptions=tuple(received), **settings)


def chained(name: str, source: str, **settings: Any) -> BoltManifest:
    """A bolt that is chained to a component, which has as many tasks."""
    subscription = Subscription(source=source, stream="default", grouping="local")
    return BoltManifest(name=name, subscriptions=(subscription,), **settings)


def counting(
    name: str,
    source: str,
    *,
    key: str = "word",
    windows: Literal["change", "close"] | None = None,
    **settings: Any,
) -> BoltManifest:
    """A bolt with a state: a count for each value of a text field, and each window if it has any."""
    subscription = Subscription(source=source, stream="default", grouping="fields", fields=(key,))
    fields = (Field(name=key), *(() if windows is None else (WINDOW_START,)))
    state = StateManifest(value=declare({"count": int}, "value", "json"), key=fields, windows=windows)
    return BoltManifest(name=name, subscriptions=(subscription,), state=state, **settings)


def manifest(*components: Component, topology: str = "words", **settings: Any) -> Manifest:
    return Manifest.of(**{"topology": topology, "max_tree_age_ms": 300_000, **settings}, components=components)


def apart(manifest: Manifest, processes: Mapping[str, int] | None = None) -> list[list[str]]:
    """Workers with one component each: one worker for a component unless `processes` has another number."""
    heads = [each.name for each in manifest.heads if not each.external]
    return [[name] for name in heads for _ in range((processes or {}).get(name, 1))]
