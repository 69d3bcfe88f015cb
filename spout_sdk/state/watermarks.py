"""The watermark of a task: the event time before which no further tuple comes. No clock, no I/O.

The messages of a source partition are in the order of their time, or out of order by the lag at most. All messages
before the offset that the spout has committed are done; so messages that are open or are delivered again have that
offset or a later one. The watermark of a partition is the greatest time of the tuples that the task has seen of offsets
before the committed offset, less the lag. The watermark of the task is the least of its partitions; it never goes back.

A partition may have no tuples for a task for a long time. Then the times of its open messages are unknown. But if all
messages before an end that the partition had at some moment are done, its open messages were sent after that moment. So
the partition holds the other partitions back only to the watermarks that they had at that moment.
"""

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Final, NamedTuple

from tuple_tree.errors import StateRecordError
from tuple_tree.positions import PARTITION_BITS

DEFAULT_IDLE_SECONDS: Final = 20.0
_MOST_OPEN: Final = 1024  # largest number of offsets that are kept for a partition
_MOST_KEPT: Final = 64
"""Largest number of ends, and of earlier watermarks, that are kept for a partition; older ones are thinned out."""
_VERSION: Final = 1


class SourceOffsets(NamedTuple):
    """The committed offset of a source partition, and the offset of its next message."""

    committed: int
    end: int


@dataclass(slots=True)
class _Source:
    """A source of tuples: a partition, or a stream whose tuples have no identity.

    Attributes:
        time: its watermark, without subtracting the lag; None before there is one.
        offsets, times: uncommitted offsets with times of tuples, both rising; once an offset is before the committed
            one, `time` is at least its time.
        step: one of this number of offsets is kept; it grows while a message is open for long.
        committed: the committed offset.
        is_known: whether the topology reads the source.
        seen_at: when the last tuple came, or when the source became known.
        ends: (offset, when) of ends that are not committed yet, both rising.
        done_to: the latest moment whose earlier messages are all known to be done; None if there is none.
        history: (when, watermark) of earlier moments, both rising.
    """

    seen_at: float
    time: int | None = None
    offsets: list[int] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    step: int = 1
    committed: int = 0
    is_known: bool = False
    ends: list[tuple[int, float]] = field(default_factory=list)
    done_to: float | None = None
    history: list[tuple[float, int]] = field(default_factory=list)

    def see(self, offset: int, time: int) -> None:
        """Notes that tuples with offsets up to `offset` and times up to `time` were seen."""
        if offset < self.committed:
            self.time = _later(self.time, time)
            return
        offsets, times = self.offsets, self.times
        at = bisect_left(offsets, offset)
        if at and times[at - 1] >= time:
            return  # an earlier offset has this time or a later one
        # Drop later offsets whose times are not greater.
        to = at + bisect_right(times[at:], time)
        if to == at and at < len(offsets) and offsets[at] == offset:
            return
        if at and self.step > 1 and offsets[at - 1] // self.step == offset // self.step:
            at -= 1
        offsets[at:to], times[at:to] = [offset], [time]
        while len(offsets) > _MOST_OPEN:
            self.step *= 2
            last = {each // self.step: index for index, each in enumerate(offsets)}.values()
            offsets[:], times[:] = [offsets[index] for index in last], [times[index] for index in last]

    def learn(self, known: SourceOffsets, now: float) -> None:
        """Takes the committed offset, before which all messages are done, and the end of the partition."""
        self._commit(known.committed)
        while self.ends and self.ends[-1][0] >= known.end:
            self.ends.pop()  # the end did not move, so the later moment replaces the earlier
        self.ends.append((known.end, now))
        if reached := bisect_right(self.ends, self.committed, key=itemgetter(0)):
            self.done_to = self.ends[reached - 1][1]
            del self.ends[:reached]
        if self.time is not None and (not self.history or self.history[-1][1] < self.time):
            self.history.append((now, self.time))
        for kept in (self.ends, self.history):
            if len(kept) > _MOST_KEPT:
                del kept[-2::-2]  # the last one stays

    def time_at(self, moment: float | None) -> int | None:
        """The watermark at a moment, or a little earlier; the current watermark if `moment` is None."""
        if moment is None:
            return self.time
        at = bisect_right(self.history, moment, key=itemgetter(0))
        return self.history[at - 1][1] if at else None

    def _commit(self, offset: int) -> None:
        if offset <= self.committed:
            return
        self.committed = offset
        if at := bisect_left(self.offsets, offset):
            self.time = _later(self.time, self.times[at - 1])
            del self.offsets[:at], self.times[:at]
            if not self.offsets:
                self.step = 1

    def is_idle(self, now: float, idle_after: float) -> bool:
        """Whether the task has seen no tuples for `idle_after` seconds, none is uncommitted, and `done_to` is set."""
        return not self.offsets and self.done_to is not None and now - self.seen_at >= idle_after


class Watermarks:
    """The watermark of a task, by source partition.

    The key of a partition is `spout << 12 | number of the partition`, as in identities. Tuples without an identity come
    from a stream, whose watermark is the greatest time that was seen, less the lag.

    A source is idle when the task has seen none of its tuples for `idle_after` seconds. An idle partition holds the
    other sources back only to the watermarks of the moment whose earlier messages it has done. While all sources are
    idle, the watermark is the greatest of theirs.

    Args:
        lag_ms: by how much messages of a partition may be out of order, in milliseconds.
        idle_after: seconds without tuples until a source is idle.
        streams: streams whose tuples never have an identity.
        spouts: indices of the spouts whose partitions are sources; if there are any, there is no watermark before
            `learn`.
        now: the time of the task's clock, in seconds.

    Attributes:
        value: the watermark in milliseconds since the epoch; None before there is one.
    """

    def __init__(
        self, lag_ms: int, idle_after: float, *, streams: Iterable[str] = (), spouts: Iterable[int] = (), now: float
    ) -> None:
        self._lag_ms = lag_ms
        self._idle_after = idle_after
        self._partitions: dict[int, _Source] = {}
        self._streams = {name: _Source(now, is_known=True) for name in streams}
        self._spouts = frozenset(spouts)
        self._is_ready = not self._spouts
        self.value: int | None = None

    def see(self, partition: int, offset: int, time: int, now: float) -> None:
        """Notes that tuples of a partition were seen, with offsets and times up to these."""
        source = self._partition(partition, now)
        source.is_known, source.seen_at = True, now
        source.see(offset, time)

    def see_stream(self, stream: str, time: int, now: float) -> None:
        """Notes that tuples of a stream without identities were seen, with times up to `time`."""
        source = self._streams.get(stream)
        if source is None:
            source = self._streams[stream] = _Source(now, is_known=True)
        source.seen_at, source.time = now, _later(source.time, time)

    def learn(self, partitions: Mapping[int, SourceOffsets], now: float) -> None:
        """Takes the offsets of the source partitions whose tuples may come.

        The ends must be requested after the commits: then a message that is older than a committed message of another
        partition is before the end of its partition, and that partition is not idle.
        """
        self._is_ready = True
        for key, known in partitions.items():
            source = self._partition(key, now)
            source.is_known = True
            source.learn(known, now)

    def advance(self, now: float) -> bool:
        """Computes the watermark; returns whether it has advanced."""
        if not self._is_ready:
            return False
        sources = [each for each in self._partitions.values() if each.is_known]
        active = [each for each in sources if not each.is_idle(now, self._idle_after)]
        idle = (each.done_to for each in sources if each.is_idle(now, self._idle_after))
        until = min((moment for moment in idle if moment is not None), default=None)
        awaited = [each.time_at(until) for each in active]
        awaited += [each.time for each in self._streams.values() if now - each.seen_at < self._idle_after]
        if None in awaited:
            return False
        every = (*(each.time_at(until) for each in sources), *(each.time for each in self._streams.values()))
        times = [time for time in awaited if time is not None]
        time = min(times) if times else max((each for each in every if each is not None), default=None)
        if time is None or (self.value is not None and time - self._lag_ms <= self.value):
            return False
        self.value = time - self._lag_ms
        return True

    def held_back_by(self, now: float) -> list[int]:
        """The keys of the partitions that hold the watermark back.

        These are the active partitions without a watermark; if there are none, the idle partitions whose `done_to` is
        at least `idle_after` seconds ago; if there are none, the active partitions with the least watermark.
        """
        behind = [
            key
            for key, each in self._partitions.items()
            if each.done_to is not None
            and now - each.done_to >= self._idle_after
            and each.is_idle(now, self._idle_after)
        ]
        active = {
            key: each.time
            for key, each in self._partitions.items()
            if each.is_known and not each.is_idle(now, self._idle_after)
        }
        unknown = [key for key, time in active.items() if time is None]
        known = {key: time for key, time in active.items() if time is not None}
        return unknown or behind or [key for key, time in known.items() if time == min(known.values())]

    def to_json(self) -> bytes:
        """The record of the state: the watermark, and for each partition its time, and its last uncommitted offset."""
        partitions = {
            str(key): [each.time, *([each.offsets[-1], each.times[-1]] if each.offsets else [])]
            for key, each in sorted(self._partitions.items())
            if each.time is not None or each.offsets
        }
        streams = {name: each.time for name, each in sorted(self._streams.items()) if each.time is not None}
        record = {"version": _VERSION, "watermark": self.value, "partitions": partitions, "streams": streams}
        return json.dumps(record, separators=(",", ":")).encode()

    def restore(self, record: bytes, now: float) -> None:
        """Continues from the record of an earlier task. Raises `StateRecordError` if the record cannot be read."""
        try:
            read = json.loads(record)
            if read["version"] != _VERSION:
                raise ValueError(f"it is of version {read['version']}, and this is version {_VERSION}")
            value = read["watermark"]
            self.value = None if value is None else int(value)
            for key, (time, *seen) in read["partitions"].items():
                source = self._partition(int(key), now)
                # Other partitions belong to spouts that the topology no longer has.
                source.is_known = int(key) >> PARTITION_BITS in self._spouts
                source.time = None if time is None else int(time)
                if seen:
                    source.see(int(seen[0]), int(seen[1]))
            for name, time in read["streams"].items():
                self._streams.setdefault(name, _Source(now, is_known=True)).time = int(time)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise StateRecordError(f"the record {record[:80]!r} is not a watermark: {error!r}") from error

    def _partition(self, key: int, now: float) -> _Source:
        source = self._partitions.get(key)
        if source is None:
            source = self._partitions[key] = _Source(now)
        return source


def _later(one: int | None, other: int) -> int:
    return other if one is None or other > one else one
