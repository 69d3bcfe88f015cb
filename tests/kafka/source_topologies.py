"""Topologies whose spout reads a topic, run in processes of their own; the environment names topology and source."""

import os
from typing import Any, Final

from spout_sdk import (
    AggregateBolt,
    BasicBolt,
    BasicCollector,
    Bolt,
    FailTupleError,
    KafkaSpout,
    RetryPolicy,
    StatefulBolt,
    TaskContext,
    Topology,
    TopologyBuilder,
    Tuple,
    count,
    declare,
    total,
    tumbling,
)
from tests.kafka.sdk_topologies import NAME

SOURCE: Final = "SDK_TEST_SOURCE"
QUICKLY: Final = RetryPolicy(delay_period=0.05, max_delay=0.5, max_retries=3)


class See(BasicBolt):
    """Counts values; fails the first delivery of those with `once`, and all of those with `never`."""

    def prepare(self, context: TaskContext) -> None:
        self.context = context
        self.failed: set[str] = set()

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        value = tuple_["value"]
        self.context.count(value)
        if "never" in value:
            raise FailTupleError("it never works")
        if "once" in value and value not in self.failed:
            self.failed.add(value)
            raise FailTupleError("not yet")


class Forget(Bolt):
    """Acks nothing."""

    def execute(self, tuple_: Tuple) -> None:
        pass


class PassThrough(BasicBolt):
    """Emits two tuples for each input."""

    streams = (declare({"value": str}),)

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        for copy in "ab":
            collector.emit((f"{tuple_['value']} {copy} {tuple_.traceparent}",))


def _builder(tasks: int = 1, **settings: Any) -> TopologyBuilder:
    given = {"message_timeout": 120.0, **settings}
    builder = TopologyBuilder(os.environ[NAME], ack_partitions=2, tick=0.5, **given)
    builder.set_spout("lines", KafkaSpout(os.environ[SOURCE].split(","), retry=QUICKLY), tasks=tasks)
    return builder


def _topology(tasks: int = 1, **settings: Any) -> Topology:
    builder = _builder(tasks, **settings)
    builder.set_bolt("see", See, tasks=2).shuffle_grouping("lines")
    return builder.build()


def three_steps() -> Topology:
    """Lines, two copies of each, and a count."""
    builder = _builder()
    builder.set_bolt("hand-on", PassThrough).shuffle_grouping("lines")
    builder.set_bolt("see", See).shuffle_grouping("hand-on")
    return builder.build()


def one_task() -> Topology:
    return _topology()


def soon_timed_out() -> Topology:
    return _topology(message_timeout=2.0)


def never_acked() -> Topology:
    builder = _builder()
    builder.set_bolt("see", Forget).shuffle_grouping("lines")
    return builder.build()


def two_tasks() -> Topology:
    return _topology(2, max_spout_pending=100)


class SplitTwice(BasicBolt):
    """Emits the words of a value; fails one of five after its first word, once for each task."""

    streams = (declare({"word": str}),)

    def prepare(self, context: TaskContext) -> None:
        self.failed: set[str] = set()

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        value = tuple_["value"]
        for word in value.split():
            collector.emit((word,))
            if value.startswith("5") and value not in self.failed:
                self.failed.add(value)
                raise FailTupleError("not yet")


class Count(StatefulBolt):
    state = int
    streams = (declare({"word": str, "count": int}),)

    def update(self, count: int, tuple_: Tuple) -> int:
        return count + 1

    def emit(self, key: str, count: int, tuple_: Tuple, collector: BasicCollector) -> None:
        collector.emit((key, count))


def counts() -> Topology:
    """Words that are counted in a state."""
    builder = _builder()
    builder.set_bolt("split", SplitTwice, tasks=2).shuffle_grouping("lines")
    builder.set_bolt("count", Count, tasks=2).fields_grouping("split", "word")
    return builder.build()


class Parse(BasicBolt):
    """Clicks of lines with a page and the milliseconds of the click."""

    streams = (declare({"page": str, "at": int}),)

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        page, at = tuple_["value"].split()
        collector.emit((page, int(at)))


class Clicks(AggregateBolt):
    window = tumbling(seconds=1).with_timestamp_field("at").with_idle_sources(after=1)
    aggregates = {"clicks": count()}
    streams = (declare({"page": str, "start": int, "end": int, "clicks": int}),)


class Report(AggregateBolt):
    """Of ten seconds, from the results of each second."""

    window = tumbling(seconds=10).with_timestamp_field("start").with_idle_sources(after=1)
    aggregates = {"seconds": count(), "clicks": total("clicks")}
    streams = (declare({"page": str, "start": int, "end": int, "seconds": int, "clicks": int}),)


def windows() -> Topology:
    """Clicks in windows, and these in longer windows."""
    builder = _builder()
    builder.set_bolt("parse", Parse, tasks=2).shuffle_grouping("lines")
    builder.set_bolt("clicks", Clicks, tasks=2).fields_grouping("parse", "page")
    builder.set_bolt("report", Report).fields_grouping("clicks", "page")
    return builder.build()
