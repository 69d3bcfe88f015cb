"""How inputs that wait for others are kept alive."""

from typing import Final

from tuple_tree.manifest import DEFAULT_TIMEOUT_MS, Manifest

_RESET_TIMEOUTS: Final = 1 / 3
_SHORTEST_RESET_SECONDS: Final = 0.01


def reset_seconds(manifest: Manifest) -> float:
    """After how long the clocks of trees whose tuples are held are restarted: a third of the least message timeout."""
    timeout_ms = min((spout.timeout_ms for spout in manifest.spouts), default=DEFAULT_TIMEOUT_MS)
    return max(_SHORTEST_RESET_SECONDS, timeout_ms / 1000 * _RESET_TIMEOUTS)
