"""Topologies with states: words that are counted, and accounts; for a simulated cluster."""

import random
from collections import Counter
from typing import Any

from spout_sdk import (
    BasicBolt,
    BasicCollector,
    FailTupleError,
    KafkaSpout,
    RetryPolicy,
    Topology,
    TopologyBuilder,
    Tuple,
    declare,
)
from spout_sdk.kafka_spout import Record
from spout_sdk.state import DELETE, StateCollector, StatefulBolt
from spout_sdk.testing import SimulatedCluster
from tests.components import Sink, source
from tuple_tree.manifest import Guarantee

TEXT = ["the tide the moon", "a moon", "tide a tide", "the", "moon moon moon the"]


def translate(record: Record) -> tuple[str]:
    return ((record.value() or b"").decode(),)


class Split(BasicBolt):
    """Fails some of its calls, by a random generator that tests set."""

    streams = (declare({"word": str}),)
    chance: random.Random | None = None

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        for word in tuple_["line"].split():
            collector.emit((word,))
            if self.chance is not None and self.chance.random() < 0.03:
                raise ValueError("bad luck")


class Count(StatefulBolt):
    state = int
    streams = (declare({"word": str, "count": int}),)

    def update(self, value: int, tuple_: Tuple) -> int:
        return value + 1

    def emit(self, key: str, value: int, tuple_: Tuple, collector: StateCollector) -> None:
        collector.emit((key, value))


COUNTS = Count.streams[0]


def words(guarantee: Guarantee = "at_least_once", count: Any = Count, sink: Any = Sink, **options: Any) -> Topology:
    builder = TopologyBuilder("words", guarantee=guarantee, message_timeout=30.0, ack_partitions=2)
    retry = RetryPolicy(delay_period=0.0, max_delay=0.0)
    builder.set_spout("lines", KafkaSpout("text", streams=[declare({"line": str})], translate=translate, retry=retry))
    builder.set_bolt("split", Split, tasks=2, **options).shuffle_grouping("lines")
    builder.set_bolt("count", count, tasks=2).fields_grouping("split", "word")
    builder.set_bolt("sink", sink).shuffle_grouping("count")
    return builder.build()


def counted(lines: list[str]) -> Counter[str]:
    return Counter(word for line in lines for word in line.split())


class Balance(StatefulBolt):
    """Refuses to go below zero; an amount of 0 deletes the account."""

    state = {"cents": int, "notes": {"type": "array", "items": "string"}}
    streams = (declare({"owner": str, "number": int, "cents": int}),)

    def update(self, value: dict[str, Any], tuple_: Tuple) -> Any:
        value["cents"] += tuple_["cents"]
        value["notes"].append(str(tuple_["cents"]))
        if tuple_["cents"] == 13:
            return {**value, "cents": "thirteen"}
        if value["cents"] < 0:
            raise FailTupleError("too little")
        return value if tuple_["cents"] else DELETE

    def emit(self, key: tuple[str, int], value: Any, tuple_: Tuple, collector: BasicCollector) -> None:
        collector.emit((*key, -1 if value is None else value["cents"]))


Payments = source(declare({"owner": str, "number": int, "cents": int}))


def accounts(**options: Any) -> Topology:
    builder = TopologyBuilder("bank", ack_partitions=1)
    builder.set_spout("payments", Payments)
    builder.set_bolt("balance", options.pop("bolt", Balance), tasks=2, **options).fields_grouping(
        "payments", ("owner", "number")
    )
    return builder.build()


def paid(*payments: tuple[str, int, int], **options: Any) -> SimulatedCluster:
    cluster = SimulatedCluster(accounts(**options), sources={"payments": payments})
    cluster.run_until_idle()
    return cluster
