"""In words, how often a message changes a state, as far as the manifest alone says it."""

from collections.abc import Sequence
from typing import Final

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


def known_guarantee(manifest: Manifest, bolt: str) -> str:
    """The guarantee of the state of a bolt where its code is not known."""
    if not manifest.acking:
        return NOT_REPLAYED
    if reasons := external_reasons(manifest, bolt):
        return counted_again(reasons)
    return (
        f"{ONCE}, unless tuples come of several inputs or of a spout that is not a KafkaSpout, which the manifest does "
        "not say: running processes report it, and acker run prints it"
    )
