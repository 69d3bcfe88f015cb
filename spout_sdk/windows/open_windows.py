"""The open windows of a task, and the watermarks at which they close. No clock, no I/O."""

from heapq import heappop, heappush
from typing import Final

from spout_sdk.windows.time_windows import TimeWindow
from tuple_tree.routing import SEPARATOR


class OpenWindows:
    """The keys of open windows, by the watermark at which they close."""

    def __init__(self) -> None:
        self._keys: dict[int, dict[bytes, None]] = {}  # watermark → keys, in the order of `add`
        self._times: list[int] = []  # a heap of these watermarks

    def add(self, key: bytes, closes_at: int) -> None:
        keys = self._keys.get(closes_at)
        if keys is None:
            keys = self._keys[closes_at] = {}
            heappush(self._times, closes_at)
        keys[key] = None

    def remove(self, key: bytes, closes_at: int) -> None:
        self._keys[closes_at].pop(key, None)

    def due(self, watermark: int, most: int) -> list[bytes]:
        """Removes and returns the keys of windows that the watermark closes, at most `most`, the earliest first."""
        found: list[bytes] = []
        while self._times and (at := self._times[0]) <= watermark:
            keys = self._keys[at]
            while keys and len(found) < most:
                found.append(key := next(iter(keys)))
                del keys[key]
            if keys:
                break
            heappop(self._times)
            del self._keys[at]
        return found

    def __len__(self) -> int:
        return sum(map(len, self._keys.values()))


class Sessions:
    """The open sessions of each key, by the bytes of the key without the start of the window."""

    def __init__(self) -> None:
        self._of: dict[bytes, list[TimeWindow]] = {}

    def joined(self, key: bytes, time: int, gap: int) -> list[TimeWindow]:
        """The sessions of a key that a tuple joins, the earliest first."""
        return [each for each in self._of.get(key, ()) if each.start - gap < time < each.end]

    def at(self, key: bytes, time: int) -> list[TimeWindow]:
        """The session that contains a time; none if there is none."""
        return [each for each in self._of.get(key, ()) if each.start <= time < each.end]

    def replace(self, key: bytes, old: list[TimeWindow], new: list[TimeWindow]) -> None:
        kept = sorted([*(each for each in self._of.get(key, ()) if each not in old), *new])
        if kept:
            self._of[key] = kept
        else:
            self._of.pop(key, None)


def window_key(key: bytes, start: int) -> bytes:
    return b"%b%b%d" % (key, SEPARATOR, start)


def split_key(key: bytes) -> tuple[bytes, int]:
    of_tuples, _, start = key.rpartition(SEPARATOR)
    return of_tuples, int(start)


WINDOW_END: Final = "window_end"
"""The field of a stored value with the end of its session; of windows by count, the number of the key's next tuple."""
