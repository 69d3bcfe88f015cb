"""The guarantee of a state in words, where only the manifest is known."""

import pytest

from tests.manifests import bolt, counting, manifest, spout
from tuple_tree.components import Component
from tuple_tree.manifest import Guarantee
from tuple_tree.state_guarantees import _WINDOWS, known_guarantee
from tuple_tree.streams import declare


@pytest.mark.parametrize(
    ("components", "guarantee", "expected"),
    [
        ((spout("lines"),), "at_most_once", "each tuple once at most: with at_most_once nothing is replayed"),
        (
            (spout("job", external=True), bolt("lines", "job", streams=(declare(["word"]),), external=True)),
            "at_least_once",
            "replays are counted again, because tuples come from spout 'job', which runs outside of this SDK, and ",
        ),
        ((spout("lines"),), "exactly_once", "each tuple once, unless tuples come of several inputs or of a spout"),
    ],
)
def test_what_the_manifest_says(components: tuple[Component, ...], guarantee: Guarantee, expected: str) -> None:
    of = manifest(*components, counting("count", "lines"), guarantee=guarantee)
    assert known_guarantee(of, "count").startswith(expected)


def test_a_state_behind_others_says_what_they_must_do() -> None:
    custom = bolt("split", "first", streams=(declare(["word"]),))
    chosen = custom.subscriptions[0].model_copy(update={"grouping": "custom"})
    of = manifest(
        spout("lines"),
        counting("sums", "lines", windows="change", streams=(declare(["word"]),)),
        counting("first", "sums", streams=(declare(["word"]),)),
        custom.model_copy(update={"subscriptions": (chosen,)}),
        counting("count", "split"),
    )
    found = known_guarantee(of, "count").split("; ")
    assert found[1:] == [
        "'first' must emit as many tuples for a replay, with the same keys, whatever the value is by then",
        _WINDOWS.format("'sums'"),
        "the custom grouping of 'split' must choose the same tasks for a replay",
    ]
    assert "; " not in known_guarantee(of, "sums")
