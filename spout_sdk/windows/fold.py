"""The windows of a task as a fold over its inputs, in the order of its inbox: no clock, no I/O (ADR 26).

`progress` is a few numbers. With `resume`, a new instance that reads uncommitted inputs again reaches the same state
and has no effect twice: of these inputs, up to the last taken one, inputs that are in no further window were settled,
and all others were held. Exceptions are settled replays, which `progress` lists.
"""

import json
from collections.abc import Collection, Iterable, Iterator
from heapq import heappop, heappush
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, cast

from kafka_clients.repeated_lines import get_logger
from spout_sdk.api.tuples import Tuple
from spout_sdk.windows.left_out import LeftOutTuples
from spout_sdk.windows.policies import SECOND, Key, Window, WindowManager, key_of
from spout_sdk.windows.replays import Replays
from spout_sdk.windows.specs import WindowSpec
from tuple_tree.commit_metadata import LARGEST_METADATA
from tuple_tree.errors import ENDS_PROCESS

if TYPE_CHECKING:
    from spout_sdk.windows.adapter import WindowEffects

logger = get_logger("spout_sdk.windows")

Position = tuple[int, int]  # position of a tuple in the inbox: offset and index
NOWHERE: Final[Position] = (-1, 0)  # before the first
Source = tuple[str, str]  # a stream that the bolt receives: component and stream


_RESERVED: Final = 64  # bytes of the metadata besides `progress`
_LAST: Final[Position] = (2**63 - 1, 2**31 - 1)
_EARLIEST: Final = -(2**63) * 10**6  # nanoseconds; the least timestamp of 64 bits


class WindowFold:
    """Windows by arrival, which close by the task's clock or a count; or by event time, the timestamps of tuples.

    By event time, windows close when the watermark has passed their end. Tuples that the watermark has not reached wait
    in a heap. Other tuples go to the manager in the order of their time, which is the manager's clock. A tuple whose
    time the watermark has passed is put into its windows that have not closed; if all have closed, it is late.

    The watermark is the least of the streams' greatest timestamps, less the lag. As in Storm, there is none before each
    stream has had a tuple.

    A replay of a held tuple takes its place, at its time. A replay of a tuple that has left is in no window.
    """

    def __init__(
        self,
        spec: WindowSpec,
        effects: "WindowEffects",
        sources: Iterable[Source],
        now: int,
        replays: Replays | None = None,
    ) -> None:
        self._spec = spec
        self._effects = effects
        self._is_timed = spec.timestamp is not None
        self._manager = WindowManager(spec, now)  # by event time, another one with the first watermark
        self._last: Tuple | None = None
        self._resumed_at: Position = NOWHERE
        self._is_behind = False
        self._again: list[Tuple] = []
        self._latest: dict[Source, int | None] = dict.fromkeys(sources)
        self._coming: list[tuple[Key, Tuple]] = []
        self._watermark: int | None = None
        self._look_at = 0
        self._replays = Replays() if replays is None else replays
        self._left_out = LeftOutTuples(self._is_gone)

    def take(self, tuple_: Tuple, now: int) -> None:
        """Takes the next tuple in the order of the inbox."""
        if self._is_behind and self._was_taken(tuple_, now):
            return
        self._last = tuple_
        identity = tuple_.identity
        if self._is_replay(identity, tuple_):
            self.tick(now)
            return
        if not self._is_timed:
            self._replays.hold(identity, tuple_)
            self._add(tuple_, now)
            return
        at = self._spec.time_of(tuple_)
        source = tuple_.component, tuple_.stream
        latest = self._latest.get(source)
        if latest is None or at > latest:
            self._latest[source] = at
        watermark = self._watermark
        if watermark is None or at > watermark:
            self._replays.hold(identity, tuple_)
            heappush(self._coming, (key_of(tuple_, at), tuple_))
        elif at < watermark and self._manager.is_over(key_of(tuple_, at), watermark):
            self._effects.late(tuple_)
            self._replays.close(identity, tuple_)
        else:
            self._replays.hold(identity, tuple_)
            self._manager.add(tuple_, at)
            self._close(watermark)
        self.tick(now)

    def tick(self, now: int) -> None:
        if self._is_behind:
            return
        if not self._is_timed:
            self._close(now)
        elif now >= self._look_at:
            self._look_at = now + round(self._spec.watermark_interval * SECOND)
            self._advance_watermark()

    @property
    def last(self) -> Position:
        """The position of the last taken tuple."""
        return self._resumed_at if self._last is None else (self._last.offset, self._last.index)

    @property
    def held(self) -> Iterator[Tuple]:
        """All tuples that wait for a window to close, in any order."""
        current = self._replays.current
        held = chain(self._again, self._manager.tuples, (tuple_ for _, tuple_ in self._coming))
        return (current.get(tuple_, tuple_) for tuple_ in held)

    @property
    def progress(self) -> str:
        """The state that `resume` needs, as JSON; empty before the first tuple."""
        if self.last == NOWHERE:
            return ""
        state: dict[str, Any] = {"windows": str(self._spec), "last": self.last}
        # By arrival, no time is saved: the clocks of two processes cannot be compared.
        if self._is_timed:
            latest = {"/".join(key): at for key, at in self._latest.items() if at is not None}
            state |= {"at": self._watermark or 0, "latest": latest}
        if not self._is_timed or self._watermark is not None:
            state |= {"gone": self._manager.gone, "trigger": self._manager.trigger}
        made = json.dumps(state, separators=(",", ":"))
        if left_out := self._left_out.written(LARGEST_METADATA - _RESERVED - len(made)):
            made = json.dumps({**state, "out": left_out}, separators=(",", ":"))
        return made

    def resume(self, progress: str, offset: int, now: int) -> None:
        """Continues from the `progress` of another instance; reading begins at `offset`, earlier inputs are settled."""
        if not progress:
            return
        state = json.loads(progress)
        if state["windows"] != str(self._spec):
            logger.warning(
                "the windows were %s when offsets were committed, and are %s: they begin again with the uncommitted "
                "tuples, and some of these may have been in windows before",
                state["windows"],
                self._spec,
            )
            return
        if self._is_timed:
            # Only of streams that still exist.
            self._latest |= {key: state["latest"].get("/".join(key)) for key in self._latest}
            if "trigger" in state:
                now = self._watermark = state["at"]
        if "trigger" in state:
            self._manager = WindowManager(self._spec, now)
            if self._is_timed or self._spec.every_count is not None:
                self._manager.trigger = state["trigger"]
            self._manager.gone = None if state["gone"] is None else tuple(state["gone"])
        self._left_out.resume(state.get("out"))
        last, index = state["last"]
        self._resumed_at = last, index
        # Windows must not close before all held tuples are held again: until then, the fold has no effects.
        self._is_behind = last >= offset
        if not self._is_behind:
            self._left_out.is_read()

    def _was_taken(self, tuple_: Tuple, now: int) -> bool:
        """Whether the instance before took the tuple; if so, holds it again, or skips it if it was settled."""
        at = tuple_.offset, tuple_.index
        if at <= self._resumed_at:
            identity = tuple_.identity
            if self._left_out.is_again(tuple_) or self._is_gone(tuple_):
                self._effects.skip(tuple_)
            elif (held := self._replays.held_as(identity, tuple_)) is not None:
                self._replays.take_place(held, tuple_)
            else:
                self._replays.hold(identity, tuple_)
                self._again.append(tuple_)
        if at >= self._resumed_at:
            again, self._again, self._is_behind = self._again, [], False
            self._left_out.is_read()
            self._restore(again, now)
        return at <= self._resumed_at

    def _is_replay(self, identity: str | None, tuple_: Tuple) -> bool:
        """Whether a tuple is a replay; if so, puts it in the place of the held tuple, or leaves it out."""
        replays = self._replays
        if (held := replays.held_as(identity, tuple_)) is not None:
            self._effects.again(tuple_, replays.take_place(held, tuple_), is_held=True)
            return True
        if (outputs := replays.outputs_of(identity, tuple_)) is not None:
            self._effects.again(tuple_, outputs, is_held=False)
            self._left_out.add(tuple_)
            return True
        return False

    def _is_gone(self, tuple_: Tuple) -> bool:
        """Whether a tuple that was taken before is settled, by its position or time."""
        gone, watermark = self._manager.gone, self._watermark
        if not self._is_timed:
            return gone is not None and (tuple_.offset, tuple_.index) <= gone[1:]
        try:
            at = self._spec.time_of(tuple_)
        except ENDS_PROCESS:
            raise
        except BaseException:  # noqa: BLE001 - the same error failed the tuple when it came first
            return True
        return watermark is not None and at <= watermark and self._manager.is_over(key_of(tuple_, at), watermark)

    def _restore(self, tuples: Iterable[Tuple], now: int) -> None:
        """Holds tuples again that the instance before held."""
        if not self._is_timed:
            self._close(now)
            for tuple_ in tuples:
                self._manager.add(tuple_, now, again=True)
            return
        for key, tuple_ in sorted((key_of(each, self._spec.time_of(each)), each) for each in tuples):
            if self._watermark is not None and key[0] <= self._watermark:
                self._manager.add(tuple_, key[0], again=True)
            else:
                heappush(self._coming, (key, tuple_))

    def _advance_watermark(self) -> None:
        latest = [at for at in self._latest.values() if at is not None]
        if len(latest) < len(self._latest):
            return
        watermark = min(latest) - round(self._spec.lag * SECOND)
        coming = self._coming
        if self._watermark is None:
            first = min(watermark, coming[0][0][0]) if coming else watermark
            self._manager, self._watermark = WindowManager(self._spec, first), first - 1
        elif watermark <= self._watermark:
            return
        while coming and coming[0][0][0] <= watermark:
            (at, *_), tuple_ = heappop(coming)
            self._add(tuple_, at)
        self._close(watermark)
        self._watermark = watermark

    def _add(self, tuple_: Tuple, at: int) -> None:
        # First close the windows that ended before this tuple, so that a late tick moves no tuple into another window.
        self._close(at)
        self._manager.add(tuple_, at)
        self._close(at)

    def _close(self, now: int) -> None:
        """Closes all windows that are due, and acks tuples that are in no further window."""
        effects, manager = self._effects, self._manager
        while (window := manager.due(now)) is not None:
            effects.fire(self._with_replays(window), self._clear)
            self._release(now)
            effects.fired(window)
        self._release(now)
        if manager.unseen:
            effects.unseen(manager.unseen)
            manager.unseen = 0

    def _release(self, now: int) -> None:
        """Acks tuples that are in no further window."""
        for held in self._manager.left(now):
            tuple_, others = self._replays.leave(held)
            self._effects.ack(tuple_)
            if others:
                self._drop(tuple_, others)

    def _clear(self) -> list[Tuple]:
        """Removes and returns all tuples that wait for a window, because a window has failed."""
        cleared = []
        for held in self._manager.clear():
            tuple_, others = self._replays.leave(held, counts=False)
            cleared.append(tuple_)
            if others:
                self._drop(tuple_, others)
        return cleared

    def _drop(self, tuple_: Tuple, others: Iterable[Tuple]) -> None:
        """Drops the tuples that replays have replaced: their trees have failed, or their outcomes are stale."""
        self._left_out.add(tuple_)
        for other in others:
            self._effects.skip(other)
            self._left_out.add(other)

    def _with_replays(self, window: Window) -> Window:
        """Replaces tuples of a window by their replays."""
        if current := self._replays.current:
            window.tuples, window.new, window.expired = (
                [current.get(tuple_, tuple_) for tuple_ in tuples]
                for tuples in (window.tuples, window.new, window.expired)
            )
            self._replays.expire()
        return window


def longest_progress(spec: WindowSpec, sources: Collection[Source]) -> str:
    """The longest `progress` of a fold of these windows over these streams."""
    fold = WindowFold(spec, cast(Any, None), sources, 0)
    fold._resumed_at = _LAST
    fold._latest = dict.fromkeys(sources, _EARLIEST)
    fold._watermark = _EARLIEST
    fold._manager.gone = (_EARLIEST, *_LAST)
    fold._manager.trigger = _EARLIEST
    return fold.progress
