"""Windows with `exactly_once` and repeated kills of the bolt: each closes once, and every tree completes."""

import random
from collections import Counter
from functools import partial

import pytest

from spout_sdk import (
    BasicBolt,
    BasicCollector,
    Topology,
    TopologyBuilder,
    Tuple,
    Window,
    WindowedBolt,
    WindowSpec,
    declare,
    sliding,
    tumbling,
)
from spout_sdk.testing import SimulatedCluster
from tests.components import source
from tests.seeds import each_seed

MESSAGES = 60
END = MESSAGES + 20


Numbers = source(declare({"number": int, "at": int}))


class Windows(WindowedBolt):
    """Emits each window, anchored to all of its tuples, and one tuple for each that is new."""

    streams = (
        declare({"end": float, "numbers": {"type": "array", "items": "long"}}),
        declare({"number": int}, name="new"),
        declare({"number": int}, name="late"),
    )

    def __init__(self, window: WindowSpec) -> None:
        self.window = window

    def execute_window(self, window: Window) -> None:
        self.collector.emit((window.end, [tuple_["number"] for tuple_ in window.tuples]))
        for tuple_ in window.new:
            self.collector.emit((tuple_["number"],), anchors=tuple_, stream="new")


class Keep(BasicBolt):
    def __init__(self) -> None:
        self.windows: list[tuple[float, list[int]]] = []
        self.late: list[int] = []

    def execute(self, tuple_: Tuple, _collector: BasicCollector) -> None:
        if tuple_.stream == "late":
            self.late.append(tuple_["number"])
        elif tuple_.stream == "default":
            self.windows.append((tuple_["end"], tuple_["numbers"]))


def topology(window: WindowSpec) -> Topology:
    builder = TopologyBuilder("windows", guarantee="exactly_once", message_timeout=600.0)
    builder.set_spout("numbers", Numbers)
    builder.set_bolt("windows", partial(Windows, window)).shuffle_grouping("numbers")
    keep = builder.set_bolt("keep", Keep)
    for stream in ("default", "new", "late"):
        keep.shuffle_grouping("windows", stream)
    return builder.build()


def timed(spec: WindowSpec) -> WindowSpec:
    return spec.with_timestamp_field("at").with_lag(2).with_late_tuple_stream("late").with_watermark_interval(0.1)


@pytest.mark.parametrize(
    "window",
    [
        timed(tumbling(seconds=5)),
        timed(sliding(seconds=6, every=2)),
        timed(sliding(count=7, every=3)),
        sliding(count=7, every=3),
        tumbling(count=4),
    ],
    ids=str,
)
def test_each_window_closes_once_and_every_tree_completes(window: WindowSpec) -> None:
    each_seed(partial(check, window))


def check(window: WindowSpec, seed: int) -> None:
    rng = random.Random(seed)
    with SimulatedCluster(topology(window), sources={"numbers": []}, seed=seed) as cluster:
        for number in range(MESSAGES):
            # A second each, some of them late.
            at = max(0, number - (rng.randrange(12) if rng.random() < 0.3 else 0))
            cluster.feed("numbers", (number, at * 1000), number)
            if rng.random() < 0.3:
                cluster.advance(0.2)
            if rng.random() < 0.2:
                cluster.kill("windows")
            elif rng.random() < 0.05:
                cluster.restart("windows")
        # A tuple after the last window releases all others.
        for number in range(MESSAGES, END):
            cluster.feed("numbers", (number, number * 10_000), number)
        cluster.advance(1)
        keep: Keep = cluster.bolt("keep")
        windows, late = keep.windows, Counter(keep.late)
        assert cluster.failed("numbers") == []
        acked = Counter(cluster.acked("numbers"))
    assert set(range(MESSAGES)) <= acked.keys()
    assert set(acked.values()) == {1}
    in_windows = Counter(number for _, numbers in windows for number in numbers)
    assert set(range(MESSAGES)) <= in_windows.keys() | late.keys()
    assert not in_windows.keys() & late.keys()
    assert set(late.values()) <= {1}
    if window.is_tumbling:
        assert set(in_windows.values()) == {1}
    if window.timestamp is not None:
        # By count, two that close for tuples which came out of order may both end where the watermark is.
        ends = [(end, max(outcomes)) if window.every_count else end for end, outcomes in windows]
        assert len(set(ends)) == len(ends)
    else:
        length, every = window.count or 0, window.every_count or 0
        assert [outcomes for _, outcomes in windows] == [
            [*range(max(0, end - length), end)] for end in range(every, END + 1, every)
        ]
