"""What a topology must be like so that its guarantee can be kept."""

from typing import Final

from spout_sdk.errors import TopologyError
from spout_sdk.kafka.kafka_settings import SESSION_MS, TRANSACTION_MS
from tuple_tree.manifest import BoltManifest, Manifest

_MARGIN_MS: Final = 7_000
"""For a broker that looks for hanging transactions every few seconds, and for a process to start."""

SHORTEST_TIMEOUT_MS: Final = SESSION_MS + TRANSACTION_MS + _MARGIN_MS
"""The shortest message timeout with `exactly_once`."""


def check_guarantee(manifest: Manifest) -> None:
    """Checks that the guarantee of a topology can be kept.

    Raises:
        TopologyError: if it cannot; the message says what to change.
    """
    if manifest.guarantee != "exactly_once":
        return
    for spout in manifest.spouts:
        if spout.timeout_ms < SHORTEST_TIMEOUT_MS:
            raise TopologyError(
                f"the message timeout of spout {spout.name!r} is {spout.timeout_ms / 1000:g} s: with exactly_once it "
                f"must be at least {SHORTEST_TIMEOUT_MS / 1000:g} s. When a bolt's process dies, it takes its group up "
                f"to {SESSION_MS / 1000:g} s to notice, and its transaction up to {TRANSACTION_MS / 1000:g} s to time "
                "out; a tree that fails meanwhile is replayed, and its outputs are there twice"
            )
    for bolt in manifest.bolts:
        if bolt.external and (receivers := _receivers(manifest, bolt)):
            raise TopologyError(
                f"bolt {bolt.name!r} does not run in this SDK, and what Spark writes again after a failure is there "
                f"twice: with exactly_once it cannot emit to {', '.join(receivers)}. Make it the last one, or build "
                'the topology with guarantee="at_least_once"'
            )


def _receivers(manifest: Manifest, source: BoltManifest) -> list[str]:
    return [
        bolt.name
        for bolt in manifest.bolts
        if any(subscription.source == source.name for subscription in bolt.subscriptions)
    ]
