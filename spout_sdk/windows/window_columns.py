"""Calls an `AggregateBolt` whose aggregates are computed on columns, without a call for each tuple."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spout_sdk.arrow import ArrowCollector, ArrowOperator
from spout_sdk.bolts.input_rows import ArrowInput
from spout_sdk.emitting.task import Task
from spout_sdk.state.keyed_operator import REPLAYED
from spout_sdk.windows.late_tuples import UNSEEN, LateTuples
from spout_sdk.windows.time_windows import Times, TimeWindow
from spout_sdk.windows.window_state import Change, WindowState
from tuple_tree.routing import keys_of_rows
from tuple_tree.streams import DEFAULT_STREAM

Rows = NDArray[np.intp]


def works_on_columns(bolt: Any, task: Task) -> bool:
    """Whether the aggregates of a bolt need no call for each tuple, and all its streams have the codec arrow."""
    manifest, name = task.context.manifest, task.context.component
    declared = manifest.component(name)
    received = [manifest.stream(each.source, each.stream) for each in getattr(declared, "subscriptions", ())]
    return (
        bool(bolt.aggregates)
        and bolt.window.gap is None
        and isinstance(bolt.window.timestamp, str)
        and all(each.kind not in ("fold", "collect") for each in bolt.aggregates.values())
        and all(stream.codec == "arrow" for stream in (*received, *declared.streams))
    )


class WindowColumnsOperator(ArrowOperator):
    """Changes the values of the windows of the rows of a record once; acks the rows of a call together."""

    def __init__(self, bolt: Any, task: Task, *rest: Any) -> None:
        super().__init__(bolt, task, *rest)
        self.state = WindowState(bolt, task)
        self._time_field = str(bolt.window.timestamp)
        self._late = LateTuples(task.context, bolt.window.late_stream)
        self._fields = task.context.manifest.stream(task.context.component, DEFAULT_STREAM).field_names

    def _execute(self, rows: ArrowInput, collector: ArrowCollector) -> None:
        state, batch, stream = self.state, rows.batch, rows.pack.stream
        names = state.key_fields[stream.component, stream.stream]
        of_rows, keys = keys_of_rows(rows.codec, batch, tuple(stream.fields[name] for name in names))
        for key in keys:
            state.key_of(key)
        times = _times(batch.column(self._time_field), self._time_field)
        identities = rows.pack.identities
        positions, paths = identities.positions[rows.indices], identities.paths[rows.indices]
        is_repeat = state.applied.is_repeat(positions, paths)
        new = np.flatnonzero(~is_repeat)
        members, starts = state.windows.rows(times)
        is_open = np.ones(len(starts), np.bool_)
        if (watermark := state.watermarks.value) is not None:
            is_open = starts + (state.windows.length + state.windows.grace) > watermark
        windows = np.bincount(members, minlength=len(times))
        is_late = (windows > 0) & (np.bincount(members[is_open], minlength=len(times)) == 0) & ~is_repeat
        changed = self._changed(batch, keys, of_rows, members, starts, is_open & ~is_repeat[members])
        if not state.closes:
            self._emit(collector, keys, of_rows, members[is_open], starts[is_open], changed)
        self._take_late(rows, np.flatnonzero(is_late), collector)
        if unseen := int(np.count_nonzero((windows == 0) & ~is_repeat)):
            self._task.context.count(UNSEEN, unseen)
        # Last, so that a call that raises has changed nothing.
        for (code, _), change in changed.items():
            state.change(keys[code], [change])
        noted = np.flatnonzero(~is_repeat & ~is_late)
        if len(noted):
            state.applied.note(positions[noted], paths[noted])
        if len(new):
            state.see_columns(f"{stream.component}/{stream.stream}", positions[new], times[new])
        if len(new) < len(times):
            self._task.context.count(REPLAYED, len(times) - len(new))
        collector.ack()

    def _changed(
        self, batch: Any, keys: Sequence[bytes], of_rows: Rows, members: Rows, starts: Times, wanted: NDArray[np.bool_]
    ) -> dict[tuple[int, int], Change]:
        """The changes of windows, by index of the key and start of the window."""
        members, starts = members[wanted], starts[wanted]
        if not len(members):
            return {}
        state, aggregates = self.state, self.state.values.aggregates
        assert aggregates is not None  # noqa: S101 - otherwise it does not work on columns
        groups, codes, firsts = _grouped(of_rows[members], starts)
        values = aggregates.columns(batch, members, groups, len(codes))
        changed = {}
        for code, start, value in zip(codes, firsts, values, strict=True):
            window = TimeWindow(start, start + state.windows.length)
            changed[code, start] = state.merged(keys[code], window, value)
        return changed

    def _emit(
        self,
        collector: ArrowCollector,
        keys: Sequence[bytes],
        of_rows: Rows,
        members: Rows,
        starts: Times,
        changed: dict[tuple[int, int], Change],
    ) -> None:
        """Emits the current results of windows, each anchored to the last row in the window."""
        if not len(members):
            return
        state = self.state
        groups, codes, firsts = _grouped(of_rows[members], starts)
        last = np.zeros(len(codes), np.intp)
        np.maximum.at(last, groups, members)
        results, anchors = [], []
        for code, start, row in zip(codes, firsts, last.tolist(), strict=True):
            window = TimeWindow(start, start + state.windows.length)
            change = changed.get((code, start))
            value = state.value_of(keys[code], window) if change is None else change.value
            result = None if value is None else state.result(state.shown_key(keys[code]), window, value)
            if result is not None:
                results.append(tuple(result))
                anchors.append(row)
        if results:
            columns = zip(self._fields, zip(*results, strict=True), strict=True)
            collector.emit({name: list(column) for name, column in columns}, anchors=np.array(anchors))

    def _take_late(self, rows: ArrowInput, late: Rows, collector: ArrowCollector) -> None:
        if not len(late):
            return
        if self._late.stream is not None:
            collector.emit(rows.batch.select([*self._late.fields]).take(late), anchors=late, stream=self._late.stream)
        self._late.count(len(late), rows.pack.offset)


def _times(column: Any, field: str) -> Times:
    if column.null_count:
        raise TypeError(f"the timestamp in field {field!r} is null: it must be milliseconds, a whole number of 64 bits")
    times: Times = column.to_numpy(zero_copy_only=False).astype(np.int64)
    return times


def _grouped(codes: Rows, starts: Times) -> tuple[Rows, list[int], list[int]]:
    """The group of each row, which is a pair of key and start; and the key and the start of each group."""
    distinct, of_starts = np.unique(starts, return_inverse=True)
    pairs, groups = np.unique(codes.astype(np.int64) * len(distinct) + of_starts, return_inverse=True)
    return groups, (pairs // len(distinct)).tolist(), distinct[pairs % len(distinct)].tolist()
