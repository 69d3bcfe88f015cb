"""The figures of `acker top` from the statistics of components."""

from collections.abc import Mapping
from contextlib import closing
from typing import Any

from inspection.observer import Observer
from inspection.view import ComponentView
from tests.waiting import eventually
from tuple_tree.manifest import Manifest


def last_figures(kafka: Mapping[str, Any], manifest: Manifest, component: str) -> ComponentView:
    """A component whose driver, of this process, has ended: it does not wait long for its last record."""

    def ended() -> ComponentView | None:
        found = figures(kafka, manifest)[component]
        # Before its first record there is no process either.
        return found if found["totals"]["emitted"] and found["processes"] == 0 else None

    found = eventually(ended, f"the last of {component}")
    assert found is not None
    return found


def figures(kafka: Mapping[str, Any], manifest: Manifest) -> dict[str, ComponentView]:
    """The components by name, at the time of their last record."""
    with closing(Observer(kafka, manifest, back_s=3_600)) as observer:
        observer.read_statistics()
    assert not observer.view.unreadable
    return {each["name"]: each for each in observer.view.snapshot(0)["components"]}
