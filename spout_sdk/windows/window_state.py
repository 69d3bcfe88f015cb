"""The state of a task with windows: their values, the watermark, and the results of closed windows.

Windows by count are windows over the numbers of the tuples of a key, in the order in which the state applies them. They
close by these numbers, and have no watermark.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from kafka_clients.repeated_lines import get_logger
from spout_sdk.api.tuples import InputPack, Tuple
from spout_sdk.emitting.task import Task
from spout_sdk.errors import ComponentError, StateError
from spout_sdk.state.stores import Store
from spout_sdk.state.task_state import TaskState
from spout_sdk.state.watermarks import DEFAULT_IDLE_SECONDS, SourceOffsets, Watermarks
from spout_sdk.windows.open_windows import WINDOW_END, OpenWindows, Sessions, split_key, window_key
from spout_sdk.windows.rows import CollectedRows
from spout_sdk.windows.specs import milliseconds
from spout_sdk.windows.time_windows import Times, TimeWindow, TimeWindows
from spout_sdk.windows.watermark_sources import WAITS_SECONDS, log_waiting, sources_of
from spout_sdk.windows.window_values import WindowValues, input_types
from tuple_tree.errors import ENDS_PROCESS, StateRecordError, describe
from tuple_tree.identities import NO_POSITION
from tuple_tree.ids import IdColumn
from tuple_tree.names import results_topic
from tuple_tree.positions import OFFSET_BITS
from tuple_tree.routing import SEPARATOR
from tuple_tree.state_records import SYSTEM_PREFIX, About, KeyCodec, ValueCodec, as_text
from tuple_tree.streams import DEFAULT_STREAM, declare

logger = get_logger("spout_sdk.windows")

WATERMARK_KEY: Final = SYSTEM_PREFIX + b"watermark"
"""Key of the changelog record with the watermark."""
WINDOWS_KEY: Final = SYSTEM_PREFIX + b"windows"
"""Key of the changelog record with the kind and size of windows."""
LOOK_SECONDS: Final = 0.1
MOST_CLOSED: Final = 2_000
"""Largest number of windows that close in one turn of the loop, so that inputs do not wait for long."""
_SESSION_STEPS: Final = 100  # the closing time of sessions is rounded up to this fraction of the gap
_OFFSET_MASK: Final = (1 << OFFSET_BITS) - 1
_NO_PARTITION: Final = NO_POSITION >> OFFSET_BITS


@dataclass(slots=True)
class Change:
    """A change of the value of a window.

    Attributes:
        window: start and end of the window.
        value: the new value; None deletes the window.
        payload: the new value, encoded as it is stored.
        end: the end that is stored with it: of a session; of a window by count, the number of the key's next tuple.
        old: the windows that it replaces: itself, or the merged sessions.
    """

    window: TimeWindow
    value: Any
    payload: bytes | None
    end: int
    old: list[TimeWindow]


class WindowState(TaskState):
    """The state of a task of an `AggregateBolt`.

    For each tuple call `changes_of`, `change` and `see`, in this order. Between tuples, `look` closes windows by time.

    Attributes:
        is_counted: whether windows are by count: `number` is the time of the next tuple of a key.
        rows: the rows that windows collect; None if they collect none.
    """

    def __init__(self, bolt: Any, task: Task) -> None:
        super().__init__(bolt, task)
        context, manifest = task.context, task.context.manifest
        self._bolt, self._task, self._clock = bolt, context.task, task.environment.clock
        self._component = context.component
        self.windows = TimeWindows.of(bolt.window)
        self.values = WindowValues(bolt, context.component, input_types(manifest, context.component))
        self.key_codec = KeyCodec(self._manifest.grouping_key)
        self._separators = max(0, len(self.key_codec.names) - 1)
        self._is_session, self.is_counted = bolt.window.gap is not None, bolt.window.count is not None
        self._numbers: dict[bytes, int] = {}  # key → the number of its next tuple, while it has an open window
        collected = {} if self.values.aggregates is None else self.values.aggregates.collected
        self.rows = CollectedRows(declare(collected, name="row", codec="avro")) if collected else None
        self._sources = sources_of(task)
        self._spouts = [spout.name for spout in manifest.spouts]
        self.closes = bolt.emit_on == "close"
        self._results_topic = results_topic(manifest.topology, context.component)
        emits = any(stream.name == DEFAULT_STREAM for stream in manifest.component(context.component).streams)
        stream = manifest.stream(context.component, DEFAULT_STREAM) if emits else None
        self._results = None if stream is None else ValueCodec(stream.model_copy(update={"codec": "json"}))
        self._messages: list[tuple[bytes, bytes]] = []
        self._stream = ""
        self._seen: list[int] = []
        self._seen_times: list[int] = []
        self._look_at = 0.0
        self._is_behind = False
        self._waits_since = self._clock()

    def begin(self, store: Store, about: About) -> None:
        super().begin(store, about)
        spec, now = self._bolt.window, self._clock()
        idle_after = DEFAULT_IDLE_SECONDS if spec.idle_after is None else spec.idle_after
        spouts, streams = self._sources
        self.watermarks = Watermarks(milliseconds(spec.lag), idle_after, spouts=spouts, streams=streams, now=now)
        self._written = store.get(WATERMARK_KEY)
        if self._written is not None:
            try:
                self.watermarks.restore(self._written, now)
            except StateRecordError as error:
                raise StateError(
                    f"{self.topic}[{self._task}], record {WATERMARK_KEY!r}: {error.detail}. Run the version that has "
                    "written it, or begin with an empty state: acker state reset"
                ) from error
        self._check_windows(store)
        self._open, self._sessions = OpenWindows(), Sessions()
        codec = ValueCodec.of(self._manifest)
        if self.rows is not None:
            self.rows.begin(store)
        for key, value, _ in store.items():
            of_tuples, start = split_key(key)
            if self.is_counted:
                self._numbers[of_tuples] = max(self._numbers.get(of_tuples, 0), codec.decode(value)[WINDOW_END])
                continue
            window = TimeWindow(start, start + self.windows.length)
            if self._is_session:
                window = TimeWindow(start, codec.decode(value)[WINDOW_END])
                self._sessions.replace(of_tuples, [], [window])
            self._open.add(key, self._due_at(window))

    def number(self, key: bytes) -> int:
        """The number of the next tuple of a key, from 0; it begins again when the key has no open window."""
        return self._numbers.get(key, 0)

    def key_of(self, key: bytes) -> bytes:
        """Returns the key of tuples. Raises `TypeError` if it cannot be part of the key of a window."""
        if key.count(SEPARATOR) != self._separators:
            raise TypeError(
                f"the key {as_text(key)} has the byte 0x1f within a value, which separates it from the start of a "
                "window: remove it"
            )
        return key

    def current(self, key: bytes, time: int) -> list[tuple[TimeWindow, Any]]:
        """The open windows of a key that contain a time, and their values."""
        if self._is_session:
            windows = self._sessions.at(key, time)
        else:
            windows = [TimeWindow(start, start + self.windows.length) for start in self.windows.starts(time)]
        return [(each, value) for each in windows if (value := self.value_of(key, each)) is not None]

    def changes_of(self, key: bytes, time: int, tuple_: Tuple) -> list[Change] | None:
        """The changes of the tuple's windows; empty if it is in no window, None if all its windows have closed."""
        if self._is_session:
            return self._changed_session(key, time, lambda value: self.values.update(value, tuple_))
        starts = self.windows.starts(time)
        windows = [TimeWindow(start, start + self.windows.length) for start in starts]
        still_open = [each for each in windows if not self.is_closed(each)]
        if windows and not still_open:
            return None
        changes = []
        for window in still_open:
            table, of_window = self.table, self._of_window(key, window.start)
            is_new = table.current(of_window) is None
            before = self.values.first() if is_new else self.values.loaded(table.get(of_window))
            value, end = self.values.update(before, tuple_), time + 1 if self.is_counted else window.end
            if value is None and self.is_counted:
                raise TypeError("update() returned no value: a window by count has one until it closes")
            payload = table.encoded(of_window, self.values.stored(value, end))
            changes.append(Change(window, value, payload, end, [] if is_new else [window]))
        return changes

    def value_of(self, key: bytes, window: TimeWindow) -> Any:
        stored = self.table.current(self._of_window(key, window.start))
        return None if stored is None else self.values.loaded(stored)

    def merged(self, key: bytes, window: TimeWindow, value: Any) -> Change:
        table, of_window = self.table, self._of_window(key, window.start)
        is_new = table.current(of_window) is None
        if not is_new:
            value = self.values.merge(table.get(of_window), value)
        return Change(window, value, table.encoded(of_window, value), window.end, [] if is_new else [window])

    def shown_key(self, key: bytes) -> Any:
        """The key as `result` takes it: the value of the field, or a tuple of several values."""
        return self.key_codec.shown(key)

    def _of_window(self, key: bytes, start: int) -> bytes:
        # The key of a global grouping has no field before the start.
        return window_key(key, start) if self.key_codec.names else b"%d" % start

    def is_closed(self, window: TimeWindow) -> bool:
        """Whether a window takes no more tuples."""
        if self.is_counted:
            return False
        watermark = self.watermarks.value
        return watermark is not None and self._closes_at(window) <= watermark

    def collect(self, key: bytes, time: int, tuple_: Tuple) -> None:
        """Adds a tuple that is in an open window to the rows of its key; raises `TypeError` before anything changes."""
        if self.rows is not None:
            self.rows.add(key, time, [tuple_[field] for field in self.rows.fields])

    def change(self, key: bytes, changes: Sequence[Change]) -> None:
        """Changes the windows of a key; of windows by count, closes windows that are full."""
        for each in changes:
            if self.is_counted:
                of_window = self._of_window(key, each.window.start)
                self.set(of_window, self.values.stored(each.value, each.end), each.payload)
                self._numbers[key] = each.end
                if each.window.end <= each.end:
                    self._close(of_window)
            else:
                self._replace(key, each)

    def _replace(self, key: bytes, change: Change) -> None:
        """Replaces windows by time by their changed or joined window; without a value, deletes them."""
        new = [] if change.value is None else [change.window]
        if self._is_session:
            self._sessions.replace(key, change.old, new)
        for old in change.old:
            if old not in new:
                of_old = self._of_window(key, old.start)
                self._open.remove(of_old, self._due_at(old))
                if not new or old.start != change.window.start:
                    self.set(of_old, None, None)
        if new:
            of_new = self._of_window(key, change.window.start)
            self.set(of_new, self.values.stored(change.value, change.window.end), change.payload)
            if change.window not in change.old:
                self._open.add(of_new, self._due_at(change.window))

    def turn(self, pack: InputPack) -> None:
        self._note_seen()
        super().turn(pack)
        self._stream = f"{pack.stream.component}/{pack.stream.stream}"

    def see(self, index: int, time: int) -> None:
        """Notes that a tuple of the record was processed, with its time."""
        self._seen.append(index)
        self._seen_times.append(time)

    def see_columns(self, stream: str, positions: IdColumn, times: Times) -> None:
        """Notes that tuples of a stream were processed: the greatest offset and the greatest time of each partition."""
        now = self._clock()
        partitions = positions >> np.uint64(OFFSET_BITS)
        first = int(partitions[0])
        if first != _NO_PARTITION and (partitions == partitions[0]).all():
            self.watermarks.see(first, int(positions.max()) & _OFFSET_MASK, int(times.max()), now)
            return
        for partition in np.unique(partitions).tolist():
            rows = partitions == np.uint64(partition)
            time = int(times[rows].max())
            if partition == _NO_PARTITION:
                self.watermarks.see_stream(stream, time, now)
            else:
                self.watermarks.see(partition, int(positions[rows].max()) & _OFFSET_MASK, time, now)

    def learn_offsets(self, offsets: Mapping[int, SourceOffsets], now: float) -> None:
        self.watermarks.learn(offsets, now)

    def look(self, now: float) -> None:
        if self.is_counted:
            return
        if now < self._look_at and not self._is_behind:
            return
        self._look_at = now + LOOK_SECONDS
        self._note_seen()
        if self.watermarks.advance(now) or not len(self._open):
            self._waits_since = now
        elif now - self._waits_since >= WAITS_SECONDS:
            self._waits_since = now
            waits = self.watermarks.held_back_by(now)
            log_waiting(f"{self._component}/{self._task}", len(self._open), WAITS_SECONDS, waits, self._spouts)
        if (watermark := self.watermarks.value) is None:
            return
        due = self._open.due(watermark, MOST_CLOSED)
        self._is_behind = len(due) == MOST_CLOSED
        for key in due:
            self._close(key)

    def changes(self) -> Iterator[tuple[bytes, bytes | None]]:
        self._note_seen()
        if not self.is_counted and (record := self.watermarks.to_json()) != self._written:
            self._unwritten[WATERMARK_KEY] = self._written = record
        if self.rows is not None:
            self._unwritten |= self.rows.take_changes()
        yield from super().changes()

    def messages(self) -> Iterator[tuple[str, bytes, bytes]]:
        messages, self._messages = self._messages, []
        for key, value in messages:
            yield self._results_topic, key, value

    def result(self, key: Any, window: TimeWindow, value: Any) -> Sequence[Any] | None:
        """The result of a window that is open."""
        result: Sequence[Any] | None = self._bolt.result(key, window, self.values.shown(value))
        return result

    def _check_windows(self, store: Store) -> None:
        """Raises `StateError` if the state has windows of another kind."""
        kind, unit = "session" if self._is_session else "sliding", "tuples" if self.is_counted else "ms"
        windows = f"{kind}, {self.windows.length} {unit}, every {self.windows.every} {unit}".encode()
        found = store.get(WINDOWS_KEY)
        if found is None or not len(store):
            self._unwritten[WINDOWS_KEY] = windows
        elif found != windows:
            raise StateError(
                f"{self.topic}[{self._task}] has windows ({found.decode(errors='replace')}) that are not those of the "
                f"bolt ({windows.decode()}): run the code that has written them until they have closed, give the bolt "
                "another name, or begin with an empty state: acker state reset"
            )

    def _close(self, key: bytes) -> None:
        of_tuples, start = split_key(key)
        stored = self.table.current(key)
        end = stored[WINDOW_END] if self._is_session else start + self.windows.length
        window = TimeWindow(start, end)
        if self.closes:
            value = self.values.loaded(self.table.get(key))
            try:
                payloads = [*self._payloads(of_tuples, window, value)]
            except ENDS_PROCESS:
                raise
            except BaseException as error:
                why = StateError(
                    f"{describe(error)}; for key {as_text(of_tuples)} and the window from {start} to "
                    f"{end}, which stays in the state until it returns"
                )
                what = "result" if self._bolt.needs.results else "execute_window"
                raise ComponentError(self._component, self._task, what, why) from error
            self._messages += ((of_tuples, payload) for payload in payloads)
        if self._is_session:
            self._sessions.replace(of_tuples, [window], [])
        elif self.is_counted and end == self._numbers[of_tuples] and self._bolt.window.is_tumbling:
            del self._numbers[of_tuples]
        self._drop_rows(of_tuples, window)
        self.set(key, None, None)

    def _payloads(self, key: bytes, window: TimeWindow, value: Any) -> Iterator[bytes]:
        """The results of a window that closes, encoded."""
        shown = self.values.shown(value)
        if self.rows is not None and (aggregates := self.values.aggregates) is not None:
            every = self.windows.every if self.is_counted else None
            shown = aggregates.with_rows(shown, self.rows.of_window(key, *window, every))
        for result in self._bolt.results(self.shown_key(key), window, shown):
            if self._results is None:
                raise TypeError("it emits, and the bolt declares no stream 'default': add streams = (declare({…}),)")
            yield self._results.encode_row(tuple(result))

    def _drop_rows(self, key: bytes, window: TimeWindow) -> None:
        """Drops rows that are in no open window; by count, keeps the rows that leave with the next one."""
        if self.rows is None:
            return
        if self._is_session:
            self.rows.drop(key, *window)
        elif not self.is_counted:
            self.rows.drop(key, None, window.start + self.windows.every)
        elif self._numbers.get(key) is None:
            self.rows.drop(key, None, None)
        else:
            self.rows.drop(key, None, window.start)

    def _changed_session(self, key: bytes, time: int, update: Any) -> list[Change] | None:
        table, gap = self.table, self.windows.length
        joined = self._sessions.joined(key, time, gap)
        window = TimeWindow(
            min([time, *(each.start for each in joined)]), max([time + gap, *(each.end for each in joined)])
        )
        if not joined and self.is_closed(window):
            return None
        value = None
        for each in joined:
            part = self.values.loaded(table.get(self._of_window(key, each.start)))
            value = part if value is None else self.values.merge(value, part)
        value = update(self.values.first() if value is None else value)
        payload = table.encoded(self._of_window(key, window.start), self.values.stored(value, window.end))
        return [Change(window, value, payload, window.end, joined)]

    def _closes_at(self, window: TimeWindow) -> int:
        return window.end + self.windows.grace

    def _due_at(self, window: TimeWindow) -> int:
        """The watermark that closes a window; for sessions rounded up, so that not each tuple changes it."""
        step = max(1, self.windows.length // _SESSION_STEPS) if self._is_session else 1
        return -(-self._closes_at(window) // step) * step

    def _note_seen(self) -> None:
        """Passes the times of the processed tuples of the record to the watermarks."""
        if self._seen:
            self.see_columns(self._stream, self._positions[self._seen], np.array(self._seen_times, np.int64))
            self._seen, self._seen_times = [], []
