"""Windows in the state on a broker: exact after kills, and windows of the results of windows."""

import json
import uuid
from collections import Counter

import pytest
from confluent_kafka.admin import NewTopic

from spout_sdk import TopologyRunner
from tests.kafka.sdk_rig import Cluster, Use, acking, progress, value, write
from tests.kafka.source_topologies import SOURCE
from tests.topics import create_topics
from tests.waiting import eventually
from tuple_tree.names import component_group

MODULE = "tests.kafka.source_topologies"
PAGES = "abc"
CLICKS = [f"{PAGES[number % 3]} {number * 10}" for number in range(3_000)]
# The last minute closes when its partitions are idle.
ENDS = [f"{page} {at}" for at in (100_000, 200_000) for page in PAGES]


def of_results(cluster: Cluster) -> dict[int, tuple[int, int]]:
    """Partition → committed offset and end of the results of the first windows, which are written in transactions."""
    name = cluster.manifest.topology
    return progress(cluster.bootstrap, component_group(name, "clicks-results"), f"{name}.results.clicks")


@pytest.mark.exhaustive
def test_windows_of_windows_are_exact_after_kills(use: Use, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = f"clicks-{uuid.uuid4().hex[:8]}"
    monkeypatch.setenv(SOURCE, topic)
    cluster = use("windows", MODULE)
    create_topics(cluster.bootstrap, [NewTopic(topic, 2, 1)])
    results = f"{cluster.manifest.topology}.results.report"
    with acking(cluster), TopologyRunner(f"{MODULE}:windows", cluster.kafka, {"clicks": 2}) as runner:
        write(cluster.bootstrap, topic, CLICKS, 2)
        for bolt in ("clicks", "report"):
            eventually(lambda: runner.stats()[bolt].executed > 0, "tuples executed")  # noqa: B023
            runner.kill(bolt)
        for each in (ENDS[:3], ENDS[3:]):
            write(cluster.bootstrap, topic, each, 1)
        eventually(lambda: len(cluster.records(results)) >= 9, "results of all windows that close")
        eventually(lambda: all(at == end for at, end in of_results(cluster).values()), "commits behind all markers")
        assert runner.stats()["clicks"].counters.get("late tuples", 0) == 0
        runner.stop()
        assert runner.wait(0)
    found = [json.loads(value(record)) for record in cluster.records(results)]
    expected = Counter((line[0], int(line[2:]) // 10_000 * 10_000) for line in CLICKS)
    assert {(each["page"], each["start"]): (each["seconds"], each["clicks"]) for each in found} == {
        window: (10, clicks) for window, clicks in expected.items()
    }
    assert len(found) == len(expected)
