"""Processes of two versions of a topology: what becomes of a record that one of them cannot read."""

from typing import Literal

from tuple_tree.manifest import Manifest
from tuple_tree.streams import StreamDeclaration

Unreadable = Literal["wait", "fail", "dead_letter"]
"""The handling of an unreadable record: it waits for a process of the published version; its trees fail, so its
message is emitted again; or it is a dead letter, and its trees fail."""


def received(manifest: Manifest, bolt: str, source: str) -> StreamDeclaration | None:
    """The stream `component/stream`, if a bolt receives it by this manifest."""
    component = next((each for each in manifest.bolts if each.name == bolt), None)
    if component is None:
        return None
    for each in component.subscriptions:
        if f"{each.source}/{each.stream}" == source:
            return manifest.stream(each.source, each.stream)
    return None


def unreadable(
    own: Manifest, published: Manifest | None, bolt: str, source: str | None, *, is_tracked: bool
) -> Unreadable:
    """The handling of a record that a process of the version `own` cannot read.

    Args:
        own: the manifest of the code that runs.
        published: what was published when the record was already written; None if there is none.
        bolt: whose inbox it is.
        source: the `source` header of the record; None without one.
        is_tracked: whether it belongs to trees.
    """
    if source is None or published is None:
        return "dead_letter"
    ours, theirs = received(own, bolt, source), received(published, bolt, source)
    if theirs is not None and (ours is None or (ours.fields, ours.codec) != (theirs.fields, theirs.codec)):
        return "wait"
    return "fail" if ours is None and theirs is None and is_tracked else "dead_letter"
