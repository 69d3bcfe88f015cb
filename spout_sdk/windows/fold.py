"""The windows of a task as a fold over its inputs, in the order of its inbox: no clock, no I/O (ADR 26).

`progress` is a few numbers, from which a new instance that reads again what was not committed comes to the same state
(`resume`) without doing anything twice: of the inputs that it reads again, up to the last that was taken, those that
are in no further window were settled, and all others were held.
"""

import json
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from itertools import chain
from typing import Any, Final, Protocol

from spout_sdk.api.tuples import Tuple
from spout_sdk.windows.policies import SECOND, Key, Window, WindowManager, key_of
from spout_sdk.windows.specs import EventTime, WindowSpec

logger = logging.getLogger("spout_sdk.windows")

Position = tuple[int, int]
"""A tuple's place in the inbox: offset and index."""

NOWHERE: Final[Position] = (-1, 0)
"""Before the first."""

Source = tuple[str, str]
"""A stream that the bolt receives: component and stream."""


class Effects(Protocol):
    """What a fold does."""

    def fire(self, window: Window, held: Callable[[], Sequence[Tuple]]) -> None:
        """A window closes; `held` takes back its tuples, and is called if it fails."""

    def fired(self, window: Window) -> None:
        """After `fire`, and after the acks of the tuples that were in their last window."""

    def ack(self, tuple_: Tuple) -> None:
        """A tuple is in no further window."""

    def late(self, tuple_: Tuple) -> None:
        """A tuple came when all its windows had closed."""

    def skip(self, tuple_: Tuple) -> None:
        """A tuple was settled before it was read again."""

    def unseen(self, count: int) -> None:
        """So many tuples were in no window."""


class WindowFold(ABC):
    """Base of the folds of windows by arrival and by event time."""

    def __init__(self, spec: WindowSpec, effects: Effects) -> None:
        self._spec = spec
        self._effects = effects
        self._manager: WindowManager | None = None
        self._last: Tuple | None = None
        self._resumed_at: Position = NOWHERE
        self._is_behind = False
        self._again: list[Tuple] = []

    @abstractmethod
    def take(self, tuple_: Tuple, now: int) -> None:
        """A tuple has come, the next in the order of the inbox."""

    def tick(self, now: int) -> None:
        if not self._is_behind:
            self._tick(now)

    @property
    def last(self) -> Position:
        """Of the last tuple that was taken."""
        return self._resumed_at if self._last is None else (self._last.offset, self._last.index)

    @property
    def held(self) -> Iterator[Tuple]:
        """All tuples that wait for a window to close, in any order."""
        return chain(self._again, () if self._manager is None else self._manager.tuples)

    @property
    def progress(self) -> str:
        """What `resume` needs; empty before the first tuple."""
        if self.last == NOWHERE:
            return ""
        state: dict[str, Any] = {"windows": str(self._spec), "last": self.last, **self._clock()}
        if self._manager is not None:
            state |= {"gone": self._manager.gone, "trigger": self._manager.trigger.state}
        return json.dumps(state, separators=(",", ":"))

    def resume(self, progress: str, offset: int, now: int) -> None:
        """Goes on from the `progress` of another instance; reading begins at the offset, all before is settled."""
        if not progress:
            return
        state = json.loads(progress)
        if state["windows"] != str(self._spec):
            logger.warning(
                "the windows were %s when offsets were committed, and are %s: they begin anew with what is not "
                "committed, and some of these tuples may have been in windows before",
                state["windows"],
                self._spec,
            )
            return
        self._set_clock(state)
        if "trigger" in state:
            self._manager = self._resumed(state["trigger"], now)
            self._manager.gone = None if state["gone"] is None else tuple(state["gone"])
        last, index = state["last"]
        self._resumed_at = last, index
        # Windows close only when all that was held is held again: until then, the fold does nothing.
        self._is_behind = last >= offset

    def _was_taken(self, tuple_: Tuple, now: int) -> bool:
        """Whether the instance before took a tuple; then it is held again, or skipped if it was settled."""
        at = tuple_.offset, tuple_.index
        if at <= self._resumed_at:
            if self._is_gone(tuple_):
                self._effects.skip(tuple_)
            else:
                self._again.append(tuple_)
        if at >= self._resumed_at:
            again, self._again, self._is_behind = self._again, [], False
            self._restore(again, now)
        return at <= self._resumed_at

    def _close(self, manager: WindowManager, now: int) -> None:
        """Closes all windows that are due, and acks what is in no further one."""
        effects = self._effects
        while (window := manager.due(now)) is not None:
            effects.fire(window, manager.clear)
            for tuple_ in manager.left(now):
                effects.ack(tuple_)
            effects.fired(window)
        for tuple_ in manager.left(now):
            effects.ack(tuple_)
        if manager.unseen:
            effects.unseen(manager.unseen)
            manager.unseen = 0

    @abstractmethod
    def _tick(self, now: int) -> None: ...

    @abstractmethod
    def _is_gone(self, tuple_: Tuple) -> bool:
        """Whether a tuple that was taken before was settled."""

    @abstractmethod
    def _restore(self, tuples: Iterable[Tuple], now: int) -> None:
        """Holds tuples again that were held before."""

    def _clock(self) -> dict[str, Any]:
        """The time, for `progress`: none by arrival, as the clocks of two processes have nothing in common."""
        return {}

    def _set_clock(self, state: Mapping[str, Any]) -> None: ...

    @abstractmethod
    def _resumed(self, trigger: int, now: int) -> WindowManager:
        """A manager whose trigger goes on from a state."""


class ArrivalFold(WindowFold):
    """Windows by the task's clock and by count: a tuple's time is when it comes."""

    def __init__(self, spec: WindowSpec, effects: Effects, now: int) -> None:
        super().__init__(spec, effects)
        self._manager: WindowManager = WindowManager.of(spec, now)

    def take(self, tuple_: Tuple, now: int) -> None:
        if self._is_behind and self._was_taken(tuple_, now):
            return
        self._last = tuple_
        manager = self._manager
        # First what ended before this tuple came, so that a late tick moves no tuple into another window.
        self._close(manager, now)
        manager.add(tuple_, now)
        self._close(manager, now)

    def _tick(self, now: int) -> None:
        self._close(self._manager, now)

    def _is_gone(self, tuple_: Tuple) -> bool:
        gone = self._manager.gone
        return gone is not None and (tuple_.offset, tuple_.index) <= gone[1:]

    def _restore(self, tuples: Iterable[Tuple], now: int) -> None:
        self._close(self._manager, now)
        for tuple_ in tuples:
            self._manager.add(tuple_, now, again=True)

    def _resumed(self, trigger: int, now: int) -> WindowManager:
        manager = WindowManager.of(self._spec, now)
        if self._spec.every_count is not None:
            manager.trigger.state = trigger
        return manager


class EventFold(WindowFold):
    """Windows by the timestamps of tuples, which close when the watermark has passed their end.

    Tuples that the watermark has not reached wait in a heap. Those that it has go to the manager in the order of their
    time, which is the manager's clock. A tuple that comes when the watermark has passed it is put into its windows that
    have not closed, and is late if all have.

    The watermark is the least of the streams' greatest timestamps, less the lag. As in Storm, there is none before each
    stream has had a tuple.
    """

    def __init__(self, spec: WindowSpec, effects: Effects, event_time: EventTime, sources: Iterable[Source]) -> None:
        super().__init__(spec, effects)
        self._event_time = event_time
        self._lag = round(event_time.lag * SECOND)
        self._latest: dict[Source, int | None] = dict.fromkeys(sources)
        self._interval = round(event_time.interval * SECOND)
        self._coming: list[tuple[Key, Tuple]] = []
        self._at = 0
        self._look_at = 0

    def take(self, tuple_: Tuple, now: int) -> None:
        if self._is_behind and self._was_taken(tuple_, now):
            return
        self._last = tuple_
        at = self._event_time.of(tuple_)
        source = tuple_.component, tuple_.stream
        latest = self._latest.get(source)
        if latest is None or at > latest:
            self._latest[source] = at
        manager = self._manager
        if manager is None or at > self._at:
            heappush(self._coming, (key_of(tuple_, at), tuple_))
        elif at < self._at and manager.is_over(key_of(tuple_, at), self._at):
            self._effects.late(tuple_)
        else:
            manager.add(tuple_, at)
            self._close(manager, self._at)
        self._tick(now)

    @property
    def held(self) -> Iterator[Tuple]:
        return chain(super().held, (tuple_ for _, tuple_ in self._coming))

    def _tick(self, now: int) -> None:
        """Moves the watermark on, once in an interval."""
        if now < self._look_at:
            return
        self._look_at = now + self._interval
        latest = [at for at in self._latest.values() if at is not None]
        if len(latest) < len(self._latest):
            return
        watermark = min(latest) - self._lag
        if self._manager is not None and watermark <= self._at:
            return
        coming = self._coming
        if self._manager is None:
            first = min(watermark, coming[0][0][0]) if coming else watermark
            self._manager = WindowManager.of(self._spec, first)
        manager = self._manager
        while coming and coming[0][0][0] <= watermark:
            (at, *_), tuple_ = heappop(coming)
            self._close(manager, at)
            manager.add(tuple_, at)
            self._close(manager, at)
        self._close(manager, watermark)
        self._at = watermark

    def _is_gone(self, tuple_: Tuple) -> bool:
        try:
            at = self._event_time.of(tuple_)
        except Exception:  # noqa: BLE001 - as when it came first, and was failed
            return True
        manager = self._manager
        return manager is not None and at <= self._at and manager.is_over(key_of(tuple_, at), self._at)

    def _restore(self, tuples: Iterable[Tuple], _now: int) -> None:
        for key, tuple_ in sorted((key_of(each, self._event_time.of(each)), each) for each in tuples):
            if self._manager is not None and key[0] <= self._at:
                self._manager.add(tuple_, key[0], again=True)
            else:
                heappush(self._coming, (key, tuple_))

    def _clock(self) -> dict[str, Any]:
        return {"at": self._at, "latest": {"/".join(key): at for key, at in self._latest.items() if at is not None}}

    def _set_clock(self, state: Mapping[str, Any]) -> None:
        self._at = state["at"]
        # Of the streams that still exist.
        self._latest |= {key: state["latest"].get("/".join(key)) for key in self._latest}

    def _resumed(self, trigger: int, _now: int) -> WindowManager:
        manager = WindowManager.of(self._spec, self._at)
        manager.trigger.state = trigger
        return manager


def fold_of(spec: WindowSpec, effects: Effects, sources: Iterable[Source], now: int) -> WindowFold:
    if spec.event_time is None:
        return ArrivalFold(spec, effects, now)
    return EventFold(spec, effects, spec.event_time, sources)
