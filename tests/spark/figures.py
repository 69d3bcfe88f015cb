"""What `acker top` makes of what components have said so far."""

from collections.abc import Mapping
from typing import Any

from inspection.stats_log import StatsLog
from inspection.view import ComponentView, TopologyView
from tuple_tree.manifest import Manifest


def figures(kafka: Mapping[str, Any], manifest: Manifest) -> dict[str, ComponentView]:
    """The components by name, at the moment when the last of them said something."""
    log, view = StatsLog(kafka, manifest.topology), TopologyView(manifest)
    log.open(back_s=3_600)
    try:
        view.feed(log.catch_up())
    finally:
        log.close()
    assert not view.unreadable
    assert not log.unreadable
    return {each["name"]: each for each in view.snapshot(view.newest_ms or 0)["components"]}
