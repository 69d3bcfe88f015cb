"""Windows without a topology: numbered tuples, and what a manager makes of them."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from spout_sdk import Tuple, WindowSpec
from spout_sdk.testing import MemoryRecord
from spout_sdk.tuples import InputStream
from spout_sdk.windows.policies import SECOND, WindowManager

_STREAM = InputStream("lines", "default", ("n",))


def numbered(n: int) -> Tuple:
    return Tuple((n,), None, 0, None, n, MemoryRecord("words.tuples.count", 0, n, b""), _STREAM)


def numbers(tuples: Iterable[Tuple]) -> list[int]:
    return [tuple_["n"] for tuple_ in tuples]


@dataclass
class Seen:
    """A window as it was handed over, in numbers."""

    tuples: list[int]
    new: list[int]
    expired: list[int]
    start: float
    end: float


@dataclass
class Driven:
    """A manager, called as `WindowedBolt` calls it.

    Attributes:
        windows: what was handed over, in order.
        left: the tuples that left, in order.
        left_after: number of a tuple → how many windows were handed over before it left.
    """

    spec: WindowSpec
    now: float = 0.0
    came: int = 0
    windows: list[Seen] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    left_after: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.manager = WindowManager.of(self.spec, self._ns)

    @property
    def _ns(self) -> int:
        return round(self.now * SECOND)

    def come(self, n: int = 1) -> "Driven":
        """So many tuples come now."""
        for _ in range(n):
            self._close()
            self.manager.add(numbered(self.came), self._ns)
            self.came += 1
            self._close()
        return self

    def at(self, now: float) -> "Driven":
        """The clock is looked at, at this second."""
        self.now = now
        self._close()
        return self

    def _close(self) -> None:
        while (window := self.manager.due(self._ns)) is not None:
            shown = (numbers(window.tuples), numbers(window.new), numbers(window.expired))
            self.windows.append(Seen(*shown, window.start, window.end))
            self._let_go()
        self._let_go()

    def _let_go(self) -> None:
        for n in numbers(self.manager.left(self._ns)):
            self.left.append(n)
            assert n not in self.left_after, "left twice"
            self.left_after[n] = len(self.windows)
