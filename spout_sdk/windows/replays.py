"""Recognises replayed tuples by their identities, so that windows count each tuple once.

A replay of a held tuple takes its place, with the outputs that were emitted for it. A replay of a tuple whose windows
have closed is in no further window; the outputs are emitted again, because the tree that they belonged to has failed,
or its outcome is stale.
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
"""Largest number of tuples in no further window that are remembered; it matters if commits cannot be read."""

_POSITION_DIGITS: Final = 16  # hexadecimal digits of the position in an identity


class Output(NamedTuple):
    """An output of a window for some of its tuples."""

    values: Sequence[Any]
    stream: str


class _Closed(NamedTuple):
    root: int
    outputs: Sequence[Output]


class Replays:
    """The tuples that windows of a task hold, and tuples that have left them, by identity.

    The identity of a tuple that has left is remembered until the spout has committed its message. Commits have no other
    effect: if the offsets of a spout are reset, its messages count again.

    Args:
        ack_partitions: number of partitions of the ack log, by which attempts of a message are compared.
        most: largest number of tuples that have left and are remembered.

    Attributes:
        current: tuple that is held, or has left since the last window → the replay in its place.
    """

    def __init__(self, ack_partitions: int = 1, most: int = MOST_CLOSED) -> None:
        self._ack_partitions = ack_partitions
        self._most = most
        self._held: dict[str, Tuple] = {}
        self._identities: dict[Tuple, str] = {}  # of held tuples
        self._superseded: dict[Tuple, list[Tuple]] = {}  # held tuple → earlier replays in its place
        self._outputs: dict[Tuple, list[Output]] = {}
        self._closed: dict[str, _Closed] = {}
        self._left: list[Tuple] = []
        self.current: dict[Tuple, Tuple] = {}

    def hold(self, identity: str | None, tuple_: Tuple) -> None:
        if identity is not None:
            self._held[identity] = tuple_
            self._identities[tuple_] = identity

    def held_as(self, identity: str | None, tuple_: Tuple) -> Tuple | None:
        """The held tuple that `tuple_` is a replay of; None if there is none."""
        held = None if identity is None else self._held.get(identity)
        return held if held is not None and self._is_same(_root(held), tuple_) else None

    def take_place(self, held: Tuple, replay: Tuple) -> Sequence[Output]:
        """Puts a replay in the place of a held tuple; returns the outputs that were emitted for that tuple."""
        if (before := self.current.get(held)) is not None:
            self._superseded.setdefault(held, []).append(before)
        self.current[held] = replay
        outputs = self._outputs.pop(before or held, None)
        if outputs:
            self._outputs[replay] = outputs
        return outputs or ()

    def outputs_of(self, identity: str | None, tuple_: Tuple) -> Sequence[Output] | None:
        """The outputs for the tuple that `tuple_` is a replay of; None if no such tuple has left its windows."""
        closed = None if identity is None else self._closed.get(identity)
        return closed.outputs if closed is not None and self._is_same(closed.root, tuple_) else None

    def leave(self, held: Tuple, *, counts: bool = True) -> tuple[Tuple, Sequence[Tuple]]:
        """Notes that a tuple leaves its last window; returns the tuple in its place, and others with its identity.

        If it does not count, because a window has failed, windows take a replay as a new tuple.
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
        """Notes that a tuple is in no further window."""
        outputs = self._outputs.pop(tuple_, ())
        if identity is None:
            return
        self._closed[identity] = _Closed(_root(tuple_), outputs)
        if len(self._closed) > self._most:
            for oldest in [*islice(self._closed, 1 + self._most // 10)]:
                del self._closed[oldest]

    def emitted(self, anchors: Iterable[Tuple], output: Output) -> None:
        """Notes an output that a window has emitted for some of its tuples."""
        outputs = self._outputs
        for anchor in anchors:
            outputs.setdefault(anchor, []).append(output)

    def expire(self) -> None:
        """Forgets the replays of tuples that have left; called when the window that lists them is created."""
        for held in self._left:
            self.current.pop(held, None)
        self._left.clear()

    def learn(self, done: Mapping[int, DoneSet]) -> None:
        """Forgets tuples that have left, if their messages are done by the last commits of the spouts."""
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
    """The root of the tree of a tuple with an identity."""
    return int(tuple_.pack.batch.roots[tuple_.place])
