"""A bolt's task in the middle of a topology, and its inputs."""

from typing import Any, ClassVar

from spout_sdk import BasicBolt, BasicCollector, FailTupleError, Stream, TopologyBuilder, Tuple, declare
from tests.components import ByHand, Sink, source
from tests.unit.sdk.memory import Bench, execute, made
from tuple_tree.manifest import Guarantee

Lines = source(declare({"line": str}), declare({"n": int}, name="numbers", codec="json"))


class Manual(ByHand):
    """Leaves everything to the test."""

    streams: ClassVar[tuple[Stream, ...]] = (declare({"word": str}), declare(["raw"], name="raw", codec="bytes"))

    def prepare(self, *given: Any) -> None:
        super().prepare(*given)
        self.tuples: list[Tuple] = []

    def execute(self, tuple_: Tuple) -> None:
        self.tuples.append(tuple_)


class Split(BasicBolt):
    streams = (declare({"word": str}),)

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        for word in tuple_["line"].split():
            if word == "bad":
                raise ValueError("a bad word")
            if word == "quiet":
                raise FailTupleError("try later")
            collector.emit((word,))


def rig(
    bolt: Any = Manual,
    *,
    guarantee: Guarantee = "at_least_once",
    counts: int = 1,
    holds_back: bool = False,
    grouped_by: str | None = None,
    **options: Any,
) -> tuple[Bench, Any, Any]:
    """A bench, the task of a bolt in its middle, and the bolt; `grouped_by` is a field, all tasks receive without."""
    made_bolts: list[Any] = []
    builder = TopologyBuilder("words", guarantee=guarantee, ack_partitions=3)
    builder.set_spout("lines", Lines)
    split = builder.set_bolt("split", made(made_bolts, bolt), tasks=2, **options)
    split.shuffle_grouping("lines").shuffle_grouping("lines", "numbers")
    count = builder.set_bolt("count", Sink, tasks=counts)
    if grouped_by is None:
        count.all_grouping("split")
    else:
        count.fields_grouping("split", grouped_by)
    bench = Bench(builder.build(), holds_back=holds_back)
    task = bench.bolt("split", 1)
    return bench, task, made_bolts[-1]


def feed(bench: Bench, task: Any, line: str, edges: dict[int, int] | None = None) -> None:
    execute(task, bench.record("split", (line,), edges, task=1))
