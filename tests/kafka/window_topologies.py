"""Topologies with windows that the tests run in processes of their own; see `sdk_topologies`."""

import os

from spout_sdk import (
    BasicBolt,
    BasicCollector,
    TaskContext,
    Topology,
    TopologyBuilder,
    Tuple,
    Window,
    WindowedBolt,
    declare,
    tumbling,
)
from tests.kafka.sdk_topologies import NAME, Lines, Split

WORDS_A_WINDOW = 30
LINES_A_WINDOW = 50


class CountWords(WindowedBolt):
    """Emits how often each word is in a window, anchored to where it stands there."""

    window = tumbling(count=WORDS_A_WINDOW)
    streams = (declare({"word": str, "count": int}),)

    def execute_window(self, window: Window) -> None:
        self.context.count("windows")
        where: dict[str, list[Tuple]] = {}
        for tuple_ in window.tuples:
            where.setdefault(tuple_["word"], []).append(tuple_)
        for word, tuples in where.items():
            self.collector.emit((word, len(tuples)), tuples)


class CountByTheSecond(CountWords):
    """The same for each second; nothing but the clock closes its last window."""

    window = tumbling(seconds=1)


class Batch(WindowedBolt):
    """Emits the numbers of the lines of a window as one tuple."""

    window = tumbling(count=LINES_A_WINDOW)
    streams = (declare({"numbers": str}),)

    def execute_window(self, window: Window) -> None:
        self.collector.emit((" ".join(str(tuple_["number"]) for tuple_ in window.tuples),))


class Add(BasicBolt):
    """Adds the counts of all windows up."""

    def prepare(self, context: TaskContext) -> None:
        self.context = context

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        self.context.count(tuple_["word"], tuple_["count"])


class Keep(BasicBolt):
    """Takes what comes."""

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        """It lies in the inbox, where the test reads it."""


def _builder() -> TopologyBuilder:
    return TopologyBuilder(os.environ[NAME], ack_partitions=3)


def words(count: type[CountWords] = CountWords) -> Topology:
    builder = _builder()
    builder.set_spout("lines", Lines, tasks=2)
    builder.set_bolt("split", Split, tasks=2).shuffle_grouping("lines")
    builder.set_bolt("count", count).global_grouping("split")
    builder.set_bolt("add", Add).shuffle_grouping("count")
    return builder.build()


def words_by_the_second() -> Topology:
    return words(CountByTheSecond)


def batches() -> Topology:
    builder = _builder()
    builder.set_spout("lines", Lines)
    builder.set_bolt("batch", Batch).global_grouping("lines")
    builder.set_bolt("keep", Keep).shuffle_grouping("batch")
    return builder.build()
