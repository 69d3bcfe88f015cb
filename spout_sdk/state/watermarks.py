"""The watermark of a task: the event time before which no further tuple comes. No clock, no I/O.

The messages of a source partition are in the order of their time, or out of order by the lag at most. What its spout
has committed is an offset before which all messages are done; so everything that is open, or is delivered again, has an
offset from there on. The watermark of a partition is the greatest time of the tuples that the task has seen of offsets
before the committed one, less the lag. That of the task is the least of its partitions; it never goes back.

A partition may have no tuples for a task for long. Nothing is known of the time of its open messages then, but when it
has done all up to an end that it had at some moment: they are younger than what was sent before. So it holds the others
back to what they had done at that moment.
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
_MOST_OPEN: Final = 1024  # offsets of a partition that are kept
_MOST_KEPT: Final = 64
"""Ends and earlier watermarks of a partition that are kept, the older the fewer."""
_VERSION: Final = 1


class SourceOffsets(NamedTuple):
    """The committed offset of a source partition, and the offset of its next message."""

    committed: int
    end: int


@dataclass(slots=True)
class _Source:
    """A source of tuples: a partition, or a stream whose tuples have no identity.

    Attributes:
        time: its watermark, without the lag; None before there is one.
        offsets, times: both rising: from the offset on that is committed next, `time` is at least the time.
        step: of as many offsets, one is kept: the watermark advances in larger steps while a message is open for long.
        committed: the committed offset.
        is_known: whether it is one that the topology reads.
        seen_at: when a tuple came last, or it was known first.
        ends: (offset, when) of ends that are not committed yet, both rising.
        done_to: the latest time up to which all messages are known to be done; None if there is none.
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
        """Tuples of offsets up to one, with times up to one, were seen."""
        if offset < self.committed:
            self.time = _later(self.time, time)
            return
        offsets, times = self.offsets, self.times
        at = bisect_left(offsets, offset)
        if at and times[at - 1] >= time:
            return  # known before
        # What is known only later, and is no more, is left out.
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
        """Everything before the committed offset is done; all messages so far are before the end."""
        self._commit(known.committed)
        while self.ends and self.ends[-1][0] >= known.end:
            self.ends.pop()  # nothing was sent since
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
        """The watermark that it had at a moment, or a little earlier; now if that is None."""
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
        """Whether it has had no tuples for the task for some time, and none is open."""
        return not self.offsets and self.done_to is not None and now - self.seen_at >= idle_after


class Watermarks:
    """The watermark of a task, by source partition.

    A partition is known by `spout << 12 | number of the partition`, as in identities. Tuples without an identity come
    from a stream, whose watermark is the greatest time that was seen, less the lag.

    A source is idle when the task has seen none of its tuples for `idle_after` seconds. Then it holds the others back
    only to what they had done when it had what it has done by now. While all are idle, the watermark is the greatest.

    Args:
        lag_ms: by how much messages of a partition may be out of order.
        idle_after: seconds.
        streams: streams whose tuples never have an identity.
        spouts: indices of the spouts whose partitions are sources; if there are any, there is no watermark before
            `learn`.
        now: the task's clock, in seconds.

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
        """Tuples of a partition have come, with offsets and times up to these."""
        source = self._partition(partition, now)
        source.is_known, source.seen_at = True, now
        source.see(offset, time)

    def see_stream(self, stream: str, time: int, now: float) -> None:
        """Tuples of a stream have come that have no identity, with times up to this."""
        source = self._streams.get(stream)
        if source is None:
            source = self._streams[stream] = _Source(now, is_known=True)
        source.seen_at, source.time = now, _later(source.time, time)

    def learn(self, partitions: Mapping[int, SourceOffsets], now: float) -> None:
        """Takes the offsets of the source partitions whose tuples may come.

        The ends must have been asked for after the commits: then a message that is older than a committed one of
        another partition is before its end, and its partition is not idle.
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
        """The partitions that hold the watermark back most: the least one's, or those without any, or those behind."""
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
        """The record of the state: the watermark; by partition its time, and what is seen but not committed."""
        partitions = {
            str(key): [each.time, *([each.offsets[-1], each.times[-1]] if each.offsets else [])]
            for key, each in sorted(self._partitions.items())
            if each.time is not None or each.offsets
        }
        streams = {name: each.time for name, each in sorted(self._streams.items()) if each.time is not None}
        record = {"version": _VERSION, "watermark": self.value, "partitions": partitions, "streams": streams}
        return json.dumps(record, separators=(",", ":")).encode()

    def restore(self, record: bytes, now: float) -> None:
        """Continues from the record of an earlier task. Raises `StateRecordError` if it is of another version."""
        try:
            read = json.loads(record)
            if read["version"] != _VERSION:
                raise ValueError(f"it is of version {read['version']}, and this is version {_VERSION}")
            value = read["watermark"]
            self.value = None if value is None else int(value)
            for key, (time, *seen) in read["partitions"].items():
                source = self._partition(int(key), now)
                # Others are of spouts that the topology does not have any more.
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
