"""A windowed bolt that adds up, and its task on a bench."""

from collections.abc import Iterable
from typing import Any

from spout_sdk import TopologyBuilder, Tuple, Window, WindowedBolt, WindowSpec, declare
from tests.components import Sink, source
from tests.unit.sdk.memory import Bench, execute, made
from tuple_tree.manifest import Guarantee


def numbers(tuples: Iterable[Tuple]) -> list[int]:
    return [tuple_["n"] for tuple_ in tuples]


Numbers = source(declare({"n": int}), declare({"n": int}, name="others"))


class Total(WindowedBolt):
    """Emits the sum of each window; the tests may change how it emits, and when it raises."""

    streams = (declare({"total": int}), declare({"n": int}, name="each"))

    def __init__(self, window: WindowSpec) -> None:
        self.window = window
        self.windows: list[Window] = []
        self.raises: Exception | None = None

    def execute_window(self, window: Window) -> None:
        self.windows.append(window)
        self.collector.emit((sum(numbers(window.tuples)),))
        if self.raises is not None:
            raise self.raises


class Rig:
    """A bench, the task of a windowed bolt in its middle, and the bolt."""

    def __init__(self, bolt: Any, *, guarantee: Guarantee = "at_least_once", **options: Any) -> None:
        bolts: list[Any] = []
        builder = TopologyBuilder("totals", guarantee=guarantee, ack_partitions=3)
        builder.set_spout("numbers", Numbers)
        builder.set_bolt("total", made(bolts, bolt), **options).shuffle_grouping("numbers")
        builder.set_bolt("sink", Sink).shuffle_grouping("total").shuffle_grouping("total", "each")
        self.bench = Bench(builder.build())
        self.task = self.bench.bolt("total")
        self.bolt = bolts[-1]

    def feed(self, *ns: int, tracked: bool = True) -> None:
        """Tuples, each of a tree of its own: 1000 + n, with edge 2000 + n."""
        for n in ns:
            self.feed_anchored(n, {1000 + n: 2000 + n} if tracked else {})

    def feed_anchored(self, n: int, edges: dict[int, int]) -> None:
        execute(self.task, self.bench.record("total", (n,), edges, source="numbers/default"))

    def tick(self, seconds: float) -> None:
        """Advances the clock, and ticks."""
        self.task.tick(self.bench.clock.advance(seconds))

    def acked(self) -> list[int]:
        """The numbers whose trees were acked, rising."""
        self.task.flush()
        return sorted(root - 1000 for batch in self.bench.sink.batches for root in batch.ack_roots.tolist())

    def edges(self) -> list[dict[int, int]]:
        """Those of the tuples that it has emitted."""
        return [sent.edges for sent in self.bench.sink.to(".sink")]

    def totals(self) -> list[int]:
        return [sum(numbers(window.tuples)) for window in self.bolt.windows]
