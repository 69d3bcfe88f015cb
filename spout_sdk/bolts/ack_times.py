"""How long it takes from the call of a bolt to the ack of a tuple."""

from collections.abc import Callable, Sequence
from typing import Final

from spout_sdk.api.tuples import InputPack, Tuple
from tuple_tree.anchors import Rows
from tuple_tree.latency import LatencyHistogram

_MOST: Final = 1_000  # tuples that are measured at once, at most: a bolt may never ack some


class AckTimes:
    """Measures one tuple of a pack at a time.

    Args:
        clock: of the task.
        histogram: the times go here, in seconds.
    """

    def __init__(self, clock: Callable[[], float], histogram: LatencyHistogram) -> None:
        self._clock = clock
        self._histogram = histogram
        self._begun: dict[InputPack, tuple[int, float]] = {}  # index of the tuple, and when it began

    def __bool__(self) -> bool:
        """Whether any tuple is measured."""
        return bool(self._begun)

    def start(self, pack: InputPack, index: int, began: float) -> None:
        """Measures how long it takes until a tuple is acked, if no other of its pack is measured."""
        if len(self._begun) < _MOST:
            self._begun.setdefault(pack, (index, began))

    def acked(self, pack: InputPack, rows: Sequence[int] | Rows) -> None:
        """Records the time of the measured tuple, if it is one of the acked ones."""
        index, began = self._begun.get(pack, (-1, 0.0))
        if index in rows:
            self._histogram.record(self._clock() - began)
            del self._begun[pack]

    def forget(self, tuple_: Tuple) -> None:
        """Stops measuring a tuple that fails, or is executed again."""
        if self._begun.get(tuple_.pack, (-1,))[0] == tuple_.index:
            del self._begun[tuple_.pack]

    def forget_expired(self) -> None:
        """Stops measuring tuples of packs that have expired."""
        self._begun = {pack: begun for pack, begun in self._begun.items() if not pack.has_expired}
