"""Runs the Python of `docs/windows.md`, and the example that it links."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from examples import trending_words
from spout_sdk import KafkaSpout, TopologyBuilder, WindowedBolt, declare, sliding, tumbling
from spout_sdk.testing import SimulatedCluster
from tests.pages import ROOT, names_of
from tests.unit.sdk.memory import Bench, execute

PAGE = (ROOT / "docs" / "windows.md").read_text()


@pytest.fixture
def page() -> dict[str, Any]:
    """The names that the blocks of the page define, in order."""
    return names_of("docs/windows.md")


@contextmanager
def cluster_of(bolt: type[WindowedBolt], name: str, values: Iterable[Any]) -> Iterator[SimulatedCluster]:
    """A bolt of the page that has read these values of one field."""
    stream = declare({name: str if name == "word" else float}, codec="json")
    builder = TopologyBuilder("page")
    builder.set_spout("source", KafkaSpout("values", streams=[stream]))
    builder.set_bolt("bolt", bolt).shuffle_grouping("source")
    with SimulatedCluster(builder.build(), topics={"values": 1}) as cluster:
        for value in values:
            # A stream of one field of text has the value of the message as it is.
            cluster.produce("values", value if isinstance(value, str) else json.dumps({name: value}))
        cluster.run_until_idle()
        yield cluster


def test_words_by_the_hundred(page: dict[str, Any]) -> None:
    with cluster_of(page["CountWords"], "word", "ab" * 50) as cluster:
        assert sorted(cluster.emitted("bolt")) == [("a", 50), ("b", 50)]
        assert len(cluster.acked("source")) == 100
    assert [bolt.name for bolt in page["topology"].manifest.bolts] == ["split", "count"]


def test_the_running_average(page: dict[str, Any]) -> None:
    with cluster_of(page["Average"], "celsius", map(float, range(1_030))) as cluster:
        assert cluster.bolt("bolt").total == sum(range(30, 1_030))
        assert len(cluster.emitted("bolt")) == 103


def test_the_table_of_kinds_is_right() -> None:
    kinds = re.findall(r"^\| `((?:tumbling|sliding)\(.*?\))`", PAGE, re.MULTILINE)
    assert len(kinds) == 7
    assert [str(eval(kind, {"tumbling": tumbling, "sliding": sliding})) for kind in kinds] == kinds


def test_the_example_counts_the_words_of_the_last_ten_seconds() -> None:
    bench = Bench(trending_words.topology)
    split = bench.bolt("split")
    tasks: list[Any] = [bench.bolt("trending", task) for task in range(2)]
    seen: list[Counter[str]] = []
    for second in range(20):
        execute(split, bench.record("split", ("word" if second < 5 else "word word",), {second + 1: 9}))
        for sent in bench.sink.to(".trending"):
            execute(tasks[sent.partition], bench.inbox(sent))
        bench.sink.tuples.clear()
        bench.clock.advance(1)
        for task in tasks:
            task.tick(bench.clock.now)
        seen.append(sum((task.bolt.counts for task in tasks), Counter()))
    assert seen[5] == Counter(word=5 + 2)
    assert seen[-1] == Counter(word=10 * 2)


def test_views_by_event_time_and_the_late_ones(page: dict[str, Any]) -> None:
    """A simulated Kafka, with each guarantee of the page."""
    for guarantee in ("at_least_once", "exactly_once"):
        with SimulatedCluster(page["views"](guarantee), topics={"views": 1, "late-visits": 1}) as cluster:
            for at in (0, 59_000, 61_000, 58_000, 66_000, 7_000):
                cluster.produce("visits", json.dumps({"page": "/", "at": at}))
                cluster.advance(1.1)
            [counted] = cluster.broker.fetch("views", 0, 0, 10)
            assert json.loads(counted.value() or b"") == {"page": "/", "minute": 0, "views": 3}
            assert [
                json.loads(record.value() or b"")["at"] for record in cluster.broker.fetch("late-visits", 0, 0, 10)
            ] == [7_000]


def test_a_minute_has_a_result_when_it_closes(page: dict[str, Any]) -> None:
    with SimulatedCluster(page["clicks"]()) as cluster:
        for at, euros in ((1_000, 2.0), (59_000, 3.5), (60_000, 1.0)):
            cluster.produce("clicks", json.dumps({"page": "a", "at": at, "euros": euros}))
        cluster.advance(25)  # the spout commits, and partitions without messages become idle
        (record,) = cluster.records("clicks-per-minute")
        minute = {"page": "a", "start": 0, "end": 60_000, "clicks": 2, "spent": 5.5, "largest": 3.5}
        assert json.loads(record.value() or b"") == minute
        assert cluster.state("clicks") == {("a", 60_000): {"clicks": 1, "spent": 1.0, "largest": 1.0}}
