"""The open trees of a spout task."""

from collections.abc import Callable, Sequence
from itertools import repeat
from operator import itemgetter
from typing import Any, Final

from tuple_tree.rotating_map import RotatingMap

_BUCKETS: Final = 3


class Pending:
    """Message id and emit time of each open tree, and the safety net under the ackers.

    A tree of which nothing was heard for `lost_after` seconds, and half as long again at most, is given up by the
    spout itself.

    Args:
        lost_after: seconds.
        now: monotonic seconds.
        on_lost: called with the message id of a tree that is given up.
    """

    __slots__ = ("_count", "_on_lost", "_period", "_rotate_at", "_trees")

    def __init__(self, lost_after: float, now: float, on_lost: Callable[[Any], object]) -> None:
        self._period = lost_after / (_BUCKETS - 1)
        self._rotate_at = now + self._period
        self._on_lost = on_lost
        self._trees: RotatingMap[int, tuple[Any, float]] = RotatingMap(_BUCKETS)
        self._count = 0

    def put(self, root: int, message_id: Any, now: float) -> bool:
        """Holds a new tree.

        Returns:
            False if a tree of this root is held already; nothing has changed then.
        """
        if self._trees.add(root, (message_id, now)):
            self._count += 1
            return True
        return False

    def has_none(self, roots: Sequence[int]) -> bool:
        """Whether all these roots are different, and no tree of one is held."""
        return len(set(roots)) == len(roots) and self._trees.has_none(roots)

    def put_all(self, roots: Sequence[int], message_ids: Sequence[Any], now: float) -> None:
        """Holds new trees, of roots that `has_none`."""
        self._trees.update(zip(roots, zip(message_ids, repeat(now)), strict=False))
        self._count += len(roots)

    def pop(self, root: int) -> tuple[Any, float] | None:
        """Message id and emit time of a tree that has an outcome now, or None if it is not held."""
        tree = self._trees.remove(root)
        if tree is not None:
            self._count -= 1
        return tree

    def tick(self, now: float) -> None:
        """Gives up what is due.

        A process that was stopped for long gives up one cohort at most before it has heard what came meanwhile.
        """
        if now >= self._rotate_at:
            self._rotate_at = now + self._period
            lost = self._trees.rotate()
            self._count -= len(lost)
            for message_id, _ in lost.values():
                self._on_lost(message_id)

    @property
    def message_ids(self) -> list[Any]:
        """The message ids of the open trees, in the order in which they began."""
        # The youngest bucket comes first.
        trees = [self._trees.get(root) for root in self._trees]
        return [message_id for message_id, _ in sorted(filter(None, trees), key=itemgetter(1))]

    def __contains__(self, root: int) -> bool:
        return root in self._trees

    def __len__(self) -> int:
        return self._count
