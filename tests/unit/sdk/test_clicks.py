"""Clicks for each page and minute in a simulated cluster: exact after outages, deployments and kills, none late."""

import json
import random
from collections import defaultdict
from typing import Any

import pytest

from spout_sdk import BasicBolt, BasicCollector, KafkaSpout, RetryPolicy, Topology, TopologyBuilder, Tuple, declare
from spout_sdk.kafka_spout import Record
from spout_sdk.state import StatefulBolt
from spout_sdk.testing import SimulatedCluster
from spout_sdk.windows import AggregateBolt, count, greatest, total, tumbling
from tuple_tree.manifest import Guarantee

PARTITIONS, PAGES, MINUTE = 4, "abcde", 60_000
COMPONENTS = {"lines": 2, "enrich": 2, "clicks": 2, "clicks-results": 2, "totals": 1, "audit": 1}


class Enrich(BasicBolt):
    """Asks a service that fails some of its calls, and all of them while it is down."""

    streams = (declare({"page": str, "at": int, "euros": float}),)
    chance: random.Random | None = None
    failing = 0.05

    @classmethod
    def ask(cls) -> None:
        if cls.chance is not None and cls.chance.random() < cls.failing:
            raise ConnectionError("no answer")

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        self.ask()
        collector.emit(tuple_.values)


class Audit(BasicBolt):
    """Fails some trees whose clicks are counted already."""

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        Enrich.ask()


class Clicks(AggregateBolt):
    window = tumbling(seconds=60).with_timestamp_field("at")
    aggregates = {"clicks": count(), "euros": total("euros"), "largest": greatest("euros")}
    streams = (declare({"page": str, "start": int, "end": int, "clicks": int, "euros": float, "largest": float}),)


class ClicksByRow(Clicks):
    """The same without columns."""

    window = tumbling(seconds=60).with_timestamp_extractor(lambda tuple_: int(tuple_["at"]))


class Totals(StatefulBolt):
    """The clicks of all closed minutes, each once."""

    state = int

    def update(self, value: int, tuple_: Tuple) -> int:
        return value + int(tuple_["clicks"])


def translate(record: Record) -> tuple[Any, ...] | None:
    try:
        return tuple(json.loads(record.value() or b"").values())
    except ValueError:
        return None


def clicks(guarantee: Guarantee, clicks_bolt: type[Clicks]) -> Topology:
    retry = RetryPolicy(initial_delay=0.0, delay_period=2.0, max_delay=10.0)
    builder = TopologyBuilder("clicks", guarantee=guarantee, message_timeout=30.0, ack_partitions=2)
    builder.set_spout("lines", KafkaSpout("lines", streams=Enrich.streams, translate=translate, retry=retry), tasks=2)
    builder.set_bolt("enrich", Enrich, tasks=2, max_consecutive_failures=0).shuffle_grouping("lines")
    builder.set_bolt("clicks", clicks_bolt, tasks=2).fields_grouping("enrich", "page")
    builder.set_bolt("audit", Audit, max_consecutive_failures=0).shuffle_grouping("enrich")
    builder.set_bolt("totals", Totals).fields_grouping("clicks", "page")
    return builder.build()


class Visitors:
    """Writes clicks as time passes, to all partitions, some of them malformed; and knows what is right."""

    def __init__(self, cluster: SimulatedCluster, chance: random.Random) -> None:
        self._cluster, self._chance = cluster, chance
        self.windows: dict[tuple[str, int], list[float]] = defaultdict(list)
        self.at = 0

    def click(self, seconds: int, every_ms: int = 3_000) -> None:
        """Clicks of the next seconds, at once: a backlog unless time passes after each second."""
        end = self.at + 1_000 * seconds
        while self.at < end:
            self.at += self._chance.randrange(1, 2 * every_ms)
            page, euros = self._chance.choice(PAGES), float(self._chance.randrange(100))
            line = json.dumps({"page": page, "at": self.at, "euros": euros})
            if self._chance.random() < 0.05:
                line = line[:-3]
            else:
                self.windows[page, self.at // MINUTE * MINUTE].append(euros)
            self._cluster.produce("lines", line, partition=self._chance.randrange(PARTITIONS))


def results(cluster: SimulatedCluster) -> dict[tuple[str, int], tuple[int, float, float]]:
    records = [json.loads(each.value_ or b"") for each in cluster.broker.records("clicks.results.clicks")]
    found = {(each["page"], each["start"]): (each["clicks"], each["euros"], each["largest"]) for each in records}
    assert len(found) == len(records), "a window closes once"
    return found


RUNS = [
    ("at_least_once", Clicks, 2, 1),
    pytest.param("at_least_once", ClicksByRow, 2, 2, marks=pytest.mark.exhaustive),
    *(
        pytest.param(guarantee, bolt, 10, seed, marks=pytest.mark.exhaustive)
        for guarantee in ("at_least_once", "exactly_once")
        for bolt in (Clicks, ClicksByRow)
        for seed in range(3)
    ),
]


@pytest.mark.parametrize(("guarantee", "bolt", "deployments", "seed"), RUNS)
def test_each_closed_minute_is_exact_after_outages_deployments_and_kills(
    guarantee: Guarantee, bolt: type[Clicks], deployments: int, seed: int
) -> None:
    chance = random.Random(seed)
    Enrich.chance = random.Random(seed + 1)
    try:
        with SimulatedCluster(clicks(guarantee, bolt), topics={"lines": PARTITIONS}, seed=seed, step=1.0) as cluster:
            visitors = Visitors(cluster, chance)
            visitors.click(300)  # a backlog
            cluster.advance(3)
            for deployment in range(deployments):
                for _ in range(3):
                    visitors.click(20)
                    cluster.advance(2)
                    name = chance.choice([*COMPONENTS])
                    cluster.kill(name, chance.randrange(COMPONENTS[name]))
                    if chance.random() < 0.3:
                        cluster.kill_acker()
                if deployment == deployments // 2:
                    Enrich.failing = 1.0
                    for _ in range(9):
                        visitors.click(20)
                        cluster.advance(20)
                    Enrich.failing = 0.05
                for name, tasks in COMPONENTS.items():
                    for task in range(tasks):
                        cluster.restart(name, task)
            Enrich.failing = 0.0
            cluster.advance(60)
            assert cluster.stats("clicks").counters.get("late tuples", 0) == 0
            found = results(cluster)
            assert found == {
                key: (len(euros), sum(euros), max(euros)) for key, euros in visitors.windows.items() if key in found
            }
            # A window closes when its task has seen a younger tuple.
            assert found.keys() >= {key for key in visitors.windows if key[1] + 2 * MINUTE <= visitors.at}
            assert all(start + MINUTE <= visitors.at for _, start in found)
            assert len(found) > 30
            assert cluster.pending("lines") == cluster.pending("clicks-results") == []
            totals = {page: sum(found[key][0] for key in found if key[0] == page) for page in PAGES}
            assert cluster.state("totals") == totals, "each result changes a state once"
            assert cluster.stats("clicks").counters["replayed tuples"] > 0
    finally:
        Enrich.chance, Enrich.failing = None, 0.05
