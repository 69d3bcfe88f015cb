"""Manifests of the tests."""

from collections.abc import Mapping
from typing import Any

from tests.manifests import bolt
from tuple_tree.components import BoltManifest, Grouping, SpoutManifest, Subscription
from tuple_tree.manifest import Manifest
from tuple_tree.streams import StreamDeclaration, declare

# Longer than a test: that trees time out is not what these are about.
TIMEOUT_MS = 600_000
LINE = declare({"line": str}, codec="avro")
WORD = declare({"word": str}, codec="avro")


def subscription(source: str, grouping: Grouping = "shuffle", *fields: str, stream: str = "default") -> Subscription:
    return Subscription(source=source, stream=stream, grouping=grouping, fields=fields)


def manifest_of(
    topology: str,
    *,
    lines: StreamDeclaration = LINE,
    words: StreamDeclaration = WORD,
    counts: Mapping[str, tuple[int, Grouping]] | None = None,
    **settings: Any,
) -> Manifest:
    """lines → split → each of `counts`: name, tasks and grouping."""
    receivers = {"count": (2, "fields")} if counts is None else counts
    bolts = []
    for name, (tasks, grouping) in receivers.items():
        of_split = subscription("split", grouping, *(["word"] if grouping == "fields" else []))
        bolts.append(BoltManifest(name=name, tasks=tasks, subscriptions=(of_split,)))
    return Manifest.of(
        topology=topology,
        max_tree_age_ms=2 * TIMEOUT_MS,
        components=(
            SpoutManifest(name="lines", streams=(lines,), timeout_ms=TIMEOUT_MS),
            bolt("split", "lines", tasks=2, streams=(words,), external=True),
            *bolts,
        ),
        **settings,
    )
