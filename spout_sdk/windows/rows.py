"""The values of tuples that windows collect, each once, in records of their own beside the values of the windows."""

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from typing import Any, Final

from spout_sdk.state.stores import Store
from tuple_tree.routing import SEPARATOR
from tuple_tree.state_records import SYSTEM_PREFIX, ValueCodec
from tuple_tree.streams import StreamDeclaration

ROW_PREFIX: Final = SYSTEM_PREFIX + b"row/"
"""The key of a row is this, its time, its number, and the key of the window's tuples, separated."""

_Place = tuple[int, int]  # time and number of a row


class WindowRows(list[dict[str, Any]]):
    """The rows of a window, by field, in the order of their time.

    Attributes:
        new: for windows by count, the rows that were not in the previous window; else None.
        expired: for windows by count, the rows that have left since the previous window; else None.
    """

    new: Sequence[dict[str, Any]] | None = None
    expired: Sequence[dict[str, Any]] | None = None


class CollectedRows:
    """The rows of a task's open windows, by key. A row of several windows is stored once.

    Args:
        stream: the fields of a row, and the codec in the changelog.
    """

    def __init__(self, stream: StreamDeclaration) -> None:
        self.fields = stream.field_names
        self._codec = ValueCodec(stream)
        self._places: dict[bytes, list[_Place]] = {}  # of each key, in the order of time
        self._changes: dict[bytes, bytes | None] = {}
        self._next = 0

    def begin(self, store: Store) -> None:
        self._store = store
        for record, _, _ in store.items(ROW_PREFIX):
            time, number, key = record.removeprefix(ROW_PREFIX).split(SEPARATOR, 2)
            self._places.setdefault(key, []).append((int(time), int(number)))
            self._next = max(self._next, int(number) + 1)
        for places in self._places.values():
            places.sort()

    def add(self, key: bytes, time: int, values: Sequence[Any]) -> None:
        """Adds a row. Raises `TypeError` if a value does not fit its field; then nothing has changed."""
        payload = self._codec.encode_row(tuple(values))
        place, self._next = (time, self._next), self._next + 1
        insort(self._places.setdefault(key, []), place)
        self._changes[_record(key, place)] = payload

    def between(self, key: bytes, start: int, end: int) -> list[dict[str, Any]]:
        """The rows of a key with `start` <= time < `end`, by field, in the order of time."""
        places = self._places.get(key, [])
        return [
            self._read(_record(key, place))
            for place in places[bisect_left(places, (start, -1)) : bisect_left(places, (end, -1))]
        ]

    def of_window(self, key: bytes, start: int, end: int, every: int | None) -> WindowRows:
        """The rows of a window; `every` is the interval of windows by count, whose new and expired rows are known."""
        rows = WindowRows(self.between(key, start, end))
        if every is not None:
            rows.new, rows.expired = rows[-every:], self.between(key, start - every, start)
        return rows

    def drop(self, key: bytes, start: int | None, end: int | None) -> None:
        """Drops the rows of a key with `start` <= time < `end`; None for no bound."""
        places = self._places.get(key, [])
        begin = 0 if start is None else bisect_left(places, (start, -1))
        behind = len(places) if end is None else bisect_left(places, (end, -1))
        for place in places[begin:behind]:
            self._changes[_record(key, place)] = None
        del places[begin:behind]
        if not places:
            self._places.pop(key, None)

    def take_changes(self) -> Mapping[bytes, bytes | None]:
        """The records of the transaction that ends now; None deletes one."""
        changes, self._changes = self._changes, {}
        return changes

    def _read(self, record: bytes) -> dict[str, Any]:
        payload = self._changes[record] if record in self._changes else self._store.get(record)
        row: dict[str, Any] = self._codec.decode(payload or b"")
        return row


def key_of_row(record: bytes) -> bytes:
    return record.removeprefix(ROW_PREFIX).split(SEPARATOR, 2)[2]


def _record(key: bytes, place: _Place) -> bytes:
    return b"%b%d%b%d%b%b" % (ROW_PREFIX, place[0], SEPARATOR, place[1], SEPARATOR, key)
