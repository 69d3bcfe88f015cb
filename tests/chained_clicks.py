"""A chain (clicks, parse, describe and publish run in the same tasks), and the bolt count, which has an inbox."""

import json
from collections import Counter

from spout_sdk import BasicBolt, BasicCollector, KafkaBolt, KafkaSpout, Topology, TopologyBuilder, Tuple, declare

CHAIN = ("parse", "describe", "publish")


class Parse(BasicBolt):
    streams = (declare({"user": str, "ms": int}),)

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        click = json.loads(tuple_["value"])
        collector.emit((click["user"], click["ms"]))


class Describe(BasicBolt):
    """Raises an exception for negative times."""

    streams = (declare({"line": str}),)

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        if tuple_["ms"] < 0:
            raise ValueError(f"{tuple_['user']} cannot have waited for {tuple_['ms']} ms")
        collector.emit((f"{tuple_['user']} waited for {tuple_['ms']} ms",))


class Count(BasicBolt):
    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def execute(self, tuple_: Tuple, _collector: BasicCollector) -> None:
        self._counts[tuple_["user"]] += 1


def build(name: str, tasks: int = 2) -> Topology:
    builder = TopologyBuilder(name)
    builder.set_spout("clicks", KafkaSpout(f"{name}-clicks"), tasks=tasks)
    builder.set_bolt("parse", Parse).local_grouping("clicks")
    builder.set_bolt("describe", Describe, on_exception="dead_letter").local_grouping("parse")
    builder.set_bolt("publish", lambda: KafkaBolt(f"{name}-lines")).local_grouping("describe")
    builder.set_bolt("count", Count, tasks=2).fields_grouping("parse", "user")
    return builder.build()


topology = build("chained-clicks")
