"""Recognises replayed tuples by their identities, so that windows count each tuple once.

A replay of a tuple that is held takes its place, with all that was emitted for it. One whose windows have closed is in
no further window; what they emitted for it is emitted again, because the tree that waited for it has failed, or its
outcome counts for nothing any more.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

import numpy as np

from spout_sdk.api.tuples import Tuple
from spout_sdk.state.known_done import KnownDone
from tuple_tree.done_sets import DoneSet
from tuple_tree.positions import are_attempts

MOST_CLOSED: Final = 500_000
"""Tuples in no further window that are remembered at most, if commits of the spouts cannot be read for instance."""

_POSITION_DIGITS: Final = 16  # of an identity


class Output(NamedTuple):
    """An output of a window for some of its tuples."""

    values: Sequence[Any]
    stream: str


class _Closed(NamedTuple):
    root: int
    outputs: Sequence[Output]


class Replays:
    """The tuples that windows of a task hold, and tuples that have left them, by identity.

    An identity that left is remembered until the spout has committed its message. What is known of commits changes
    nothing else: a spout whose offsets are reset emits messages that count again.

    Args:
        most: how many tuples that have left are remembered.

    Attributes:
        current: the replay in the place of a tuple that was held, or has left since the last window.
    """

    def __init__(self, ack_partitions: int = 1, most: int = MOST_CLOSED) -> None:
        self._ack_partitions = ack_partitions
        self._most = most
        self._held: dict[str, Tuple] = {}
        self._identities: dict[Tuple, str] = {}  # of these
        self._superseded: dict[Tuple, list[Tuple]] = {}  # other replays in the place of a tuple that is held
        self._outputs: dict[Tuple, list[Output]] = {}
        self._closed: dict[str, _Closed] = {}
        self._left: list[Tuple] = []
        self.current: dict[Tuple, Tuple] = {}

    def hold(self, identity: str | None, tuple_: Tuple) -> None:
        if identity is not None:
            self._held[identity] = tuple_
            self._identities[tuple_] = identity

    def held_as(self, identity: str | None, tuple_: Tuple) -> Tuple | None:
        """The tuple that is held and that this one is a replay of."""
        held = None if identity is None else self._held.get(identity)
        return held if held is not None and self._is_same(_root(held), tuple_) else None

    def take_place(self, held: Tuple, replay: Tuple) -> Sequence[Output]:
        """A replay takes the place of a tuple that is held; returns what was emitted for that."""
        if (before := self.current.get(held)) is not None:
            self._superseded.setdefault(held, []).append(before)
        self.current[held] = replay
        outputs = self._outputs.pop(before or held, None)
        if outputs:
            self._outputs[replay] = outputs
        return outputs or ()

    def outputs_of(self, identity: str | None, tuple_: Tuple) -> Sequence[Output] | None:
        """The outputs for the tuple that this one is a replay of; None if it has not left a window."""
        closed = None if identity is None else self._closed.get(identity)
        return closed.outputs if closed is not None and self._is_same(closed.root, tuple_) else None

    def leave(self, held: Tuple, *, counts: bool = True) -> tuple[Tuple, Sequence[Tuple]]:
        """A tuple leaves its last window; returns the one in its place, and others with its identity.

        If it does not count, because a window has failed, a replay is a new tuple for the windows.
        """
        identity, current = self._identities.pop(held, None), self.current.get(held, held)
        others: list[Tuple] = []
        if current is not held:
            others = [held, *self._superseded.pop(held, ())]
            self._left.append(held)
        if identity is not None and self._held.get(identity) is held:
            del self._held[identity]
        if counts:
            self.close(identity, current)
        else:
            self._outputs.pop(current, None)
        return current, others

    def close(self, identity: str | None, tuple_: Tuple) -> None:
        """A tuple is in no further window."""
        outputs = self._outputs.pop(tuple_, ())
        if identity is None:
            return
        self._closed[identity] = _Closed(_root(tuple_), outputs)
        if len(self._closed) > self._most:
            for oldest in [*islice(self._closed, 1 + self._most // 10)]:
                del self._closed[oldest]

    def emitted(self, anchors: Iterable[Tuple], output: Output) -> None:
        """A window has emitted something for some of its tuples."""
        outputs = self._outputs
        for anchor in anchors:
            outputs.setdefault(anchor, []).append(output)

    def expire(self) -> None:
        """A window has been made, with all that has left before it."""
        for held in self._left:
            self.current.pop(held, None)
        self._left.clear()

    def learn(self, done: Mapping[int, DoneSet]) -> None:
        """Forgets what has left of messages that are done, by the last commits of their spouts."""
        if not (closed := self._closed):
            return
        known = KnownDone()
        known.learn(done)
        identities = [*closed]
        positions = (int(identity[:_POSITION_DIGITS], 16) for identity in identities)
        for at in known.contains(np.fromiter(positions, np.uint64, len(identities))).nonzero()[0].tolist():
            del closed[identities[at]]

    @property
    def size(self) -> int:
        """How many tuples that have left are remembered."""
        return len(self._closed)

    def _is_same(self, root: int, tuple_: Tuple) -> bool:
        return are_attempts(root, _root(tuple_), self._ack_partitions)


def _root(tuple_: Tuple) -> int:
    """The tree of a tuple with an identity."""
    return int(tuple_.pack.batch.roots[tuple_.place])
