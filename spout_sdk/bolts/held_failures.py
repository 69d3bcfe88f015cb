"""With `exactly_once`: failures that wait for older inputs, and how what waits is kept alive."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from spout_sdk.api.tuples import Tuple
from spout_sdk.emitting.input_offsets import InputOffsets
from tuple_tree.manifest import DEFAULT_TIMEOUT_MS, Manifest

_RESET_TIMEOUTS: Final = 1 / 3
_SHORTEST_RESET_SECONDS: Final = 0.01


def reset_seconds(manifest: Manifest) -> float:
    """After how long the clocks of trees whose tuples are held are restarted: a third of the least message timeout."""
    timeout_ms = min((spout.timeout_ms for spout in manifest.spouts), default=DEFAULT_TIMEOUT_MS)
    return max(_SHORTEST_RESET_SECONDS, timeout_ms / 1000 * _RESET_TIMEOUTS)


class HeldFailures:
    """Fails and dead letters of a task; with `exactly_once` each waits until no older input of the task is open.

    Until then its record is read again after a crash. If its fail was committed, the input could succeed then, for a
    tree that is replayed: its outputs would come twice. If it was not, nothing could be committed while an older input
    is held. A record's failures are settled when nothing else of it is open. Those that wait are open inputs: they are
    read again after a stop, and count for the limit of uncommitted inputs.

    Args:
        inputs: of the task.
    """

    def __init__(self, inputs: InputOffsets) -> None:
        self._inputs = inputs
        self._held: dict[int, dict[Tuple, Callable[[], None]]] = {}  # by offset

    def add(self, tuple_: Tuple, settle: Callable[[], None]) -> None:
        """Calls `settle`, which fails a tuple or sends its dead letter, now or when no older input is open."""
        if not (self._inputs.defers_failures and self._inputs.is_open(tuple_.offset)):
            settle()  # one that has expired is committed
            return
        self._held.setdefault(tuple_.offset, {})[tuple_] = settle
        self.settle_due()

    def settle_due(self) -> bool:
        """Settles the failures of the oldest open record, if nothing else of it is open; whether there were any."""
        if not self._held or (oldest := self._inputs.oldest_unsettled) is None:
            return False
        if len(self._held.get(oldest.offset, ())) < oldest.left:
            return False
        self.settle([oldest.offset])
        return True

    def settle(self, offsets: Iterable[int]) -> None:
        """Settles the failures of some records in any case."""
        for offset in offsets:
            for settle in self._held.pop(offset, {}).values():
                settle()

    def __contains__(self, tuple_: Tuple) -> bool:
        return any(each.index == tuple_.index for each in self._held.get(tuple_.offset, ()))

    def __iter__(self) -> Iterator[Tuple]:
        for held in self._held.values():
            yield from held
