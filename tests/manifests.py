"""Manifests of small topologies."""

from collections.abc import Mapping, Sequence
from typing import Any

from tuple_tree.manifest import BoltManifest, Component, Manifest, SpoutManifest, Subscription
from tuple_tree.streams import declare


def spout(name: str, fields: Sequence[str] | Mapping[str, Any] = ("word",), **settings: Any) -> SpoutManifest:
    return SpoutManifest(name=name, streams=(declare(fields),), **settings)


def bolt(name: str, *sources: str, **settings: Any) -> BoltManifest:
    """A bolt that receives the default streams of these components."""
    received = (Subscription(source=source, stream="default", grouping="shuffle") for source in sources)
    return BoltManifest(name=name, subscriptions=tuple(received), **settings)


def manifest(*components: Component, topology: str = "words", **settings: Any) -> Manifest:
    return Manifest.of(**{"topology": topology, "max_tree_age_ms": 300_000, **settings}, components=components)
