"""Reads partitions in blocks of offsets, from their end or around an offset, until enough is found.

The first blocks are small, so what is near is found soon. All partitions are read at the same time.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import zip_longest
from typing import Final, Self

from confluent_kafka import Message

from kafka_clients.catalogue import KafkaSettings
from kafka_clients.log_reader import LogReader, Place, Progress

FIRST_BLOCK: Final = 5_000
"""Offsets of a partition."""
_LARGEST_BLOCK: Final = 320_000
_GROWTH: Final = 4


def blocks(
    offset_ranges: Mapping[Place, range], *, from_end: bool, first: int = FIRST_BLOCK
) -> Iterator[dict[Place, range]]:
    """Divides ranges of offsets into blocks of growing size, a block of each partition at a time."""
    left, size = {place: offsets for place, offsets in offset_ranges.items() if len(offsets)}, first
    while left:
        yield {place: offsets[-size:] if from_end else offsets[:size] for place, offsets in left.items()}
        left = {place: offsets[:-size] if from_end else offsets[size:] for place, offsets in left.items()}
        left = {place: offsets for place, offsets in left.items() if len(offsets)}
        size = min(size * _GROWTH, _LARGEST_BLOCK)


def blocks_around(
    offset_ranges: Mapping[Place, range], middle: Mapping[Place, int], *, first: int = FIRST_BLOCK
) -> Iterator[dict[Place, range]]:
    """Divides ranges of offsets into blocks on both sides of an offset of each; the blocks next to it come first."""
    late = {place: range(max(offsets.start, middle[place]), offsets.stop) for place, offsets in offset_ranges.items()}
    early = {place: range(offsets.start, min(offsets.stop, middle[place])) for place, offsets in offset_ranges.items()}
    sides = blocks(late, from_end=False, first=first), blocks(early, from_end=True, first=first)
    for pair in zip_longest(*sides, fillvalue=dict[Place, range]()):
        yield from filter(None, pair)


class BlockReader:
    """One consumer; not for several threads. Its `progress` has what is read, and how many offsets of how many."""

    def __init__(self, kafka: KafkaSettings, progress: Progress | None = None) -> None:
        self._progress = progress or (lambda _what, _done, _total: None)
        self._before = self._total = 0
        self._log = LogReader(kafka, self._show)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._log.close()

    def offset_ranges(self, places: Iterable[Place], since_ms: int | None = None) -> dict[Place, range]:
        """As of `LogReader`."""
        return self._log.offset_ranges(places, since_ms)

    def read(
        self,
        what: str,
        offset_ranges: Mapping[Place, range],
        take: Callable[[Message], None],
        enough: Callable[[], bool] = lambda: False,
        *,
        around: Mapping[Place, int] | None = None,
    ) -> None:
        """Calls `take` with records until `enough` is true after a block; errors as of `LogReader.read`.

        It begins at the end of the ranges, or on both sides of an offset of each. The records of a block come in the
        order of their offsets.
        """
        self._before, self._total = 0, sum(map(len, offset_ranges.values()))
        for block in blocks(offset_ranges, from_end=True) if around is None else blocks_around(offset_ranges, around):
            self._log.read(what, block, take)
            if enough():
                return
            self._before += sum(map(len, block.values()))

    def _show(self, what: str, done: int, _total: int) -> None:
        self._progress(what, self._before + done, self._total)
