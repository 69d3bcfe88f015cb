"""In words, how often a message changes a state, as far as the manifest alone says it."""

from collections.abc import Sequence
from typing import Final

from tuple_tree.components import BoltManifest
from tuple_tree.manifest import Manifest

ONCE: Final = "each tuple once"
NOT_REPLAYED: Final = "each tuple once at most: with at_most_once nothing is replayed"


def external_reasons(manifest: Manifest, bolt: str) -> list[str]:
    """Why tuples that reach a bolt have no identity: components upstream that run outside of the SDK."""
    return [
        f"tuples come from {each.kind} {each.name!r}, which runs outside of this SDK"
        for each in manifest.upstream(bolt)
        if each.external
    ]


def counted_again(reasons: Sequence[str]) -> str:
    """The guarantee of a state whose tuples have no identity."""
    return f"replays are counted again, because {', and '.join(reasons)}"


_SAME_KEYS: Final = "{} must emit as many tuples for a replay, with the same keys, whatever the value is by then"
_WINDOWS: Final = (
    "{} emits the results of windows as they are by then, so those of a replay may be counted again or left out: "
    'use emit_on="close"'
)
_SAME_TASKS: Final = "the custom grouping of {} must choose the same tasks for a replay"


def exceptions(manifest: Manifest, bolt: str) -> list[str]:
    """The replayed tuples that a state may count again or leave out, by the manifest, and what prevents that."""
    found: dict[str, list[str]] = {_SAME_KEYS: [], _WINDOWS: [], _SAME_TASKS: []}
    for each in manifest.upstream(bolt):
        if not isinstance(each, BoltManifest) or each.external:
            continue
        if each.state is not None and each.name != bolt:
            found[_SAME_KEYS if each.state.windows is None else _WINDOWS].append(repr(each.name))
        if any(of.grouping == "custom" for of in each.subscriptions):
            found[_SAME_TASKS].append(repr(each.name))
    return [text.format(", ".join(bolts)) for text, bolts in found.items() if bolts]


def known_guarantee(manifest: Manifest, bolt: str) -> str:
    """The guarantee of the state of a bolt where its code is not known."""
    if not manifest.acking:
        return NOT_REPLAYED
    if reasons := external_reasons(manifest, bolt):
        return counted_again(reasons)
    unknown = (
        f"{ONCE}, unless tuples come of several inputs or of a spout that is not a KafkaSpout, which the manifest does "
        "not say: running processes report it, and acker run prints it"
    )
    return "; ".join([unknown, *exceptions(manifest, bolt)])
