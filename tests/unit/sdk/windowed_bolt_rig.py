"""A windowed bolt that adds up, and its task on a bench."""

from typing import Any

from spout_sdk import Bolt, Spout, TopologyBuilder, Tuple, Window, WindowedBolt, WindowSpec, declare
from tests.unit.sdk.memory import Bench, made
from tests.unit.sdk.windows_rig import numbers
from tuple_tree.manifest import Guarantee


class Numbers(Spout):
    streams = (declare({"n": int}),)

    def next_tuple(self) -> None:
        """Has nothing to emit."""


class Total(WindowedBolt):
    """Emits what each window adds up to; the tests may say how it emits, and when it raises."""

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


class Sink(Bolt):
    def execute(self, tuple_: Tuple) -> None:
        """Is never run here."""


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
        self.fed = 0

    def feed(self, *ns: int, tracked: bool = True) -> None:
        """Tuples, each of a tree of its own: 1000 + n, with edge 2000 + n."""
        for n in ns:
            edges = {1000 + n: 2000 + n} if tracked else None
            self.task.execute(self.bench.record("total", (n,), edges, source="numbers/default"))

    def tick(self, seconds: float) -> None:
        """Time passes, and the task's bolt is told."""
        self.task.tick(self.bench.clock.advance(seconds))

    def acked(self) -> list[int]:
        """The numbers whose trees the acker heard an ack of."""
        self.task.flush()
        return [root - 1000 for batch in self.bench.sink.batches for root in batch.ack_roots.tolist()]

    def totals(self) -> list[int]:
        return [sum(numbers(window.tuples)) for window in self.bolt.windows]
