"""A state on a broker: exact after replays, and kills of the processes that have it."""

import uuid
from collections import Counter

import pytest
from confluent_kafka.admin import NewTopic

from spout_sdk import StateView, TopologyRunner
from tests.kafka.sdk_rig import Use, acking, write
from tests.kafka.source_topologies import SOURCE
from tests.topics import create_topics
from tests.waiting import eventually

MODULE = "tests.kafka.source_topologies"
LINES = [f"{number % 7} the word{number % 40} and the tide" for number in range(2_000)]


def test_counts_are_exact_after_replays_and_kills(use: Use, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = f"lines-{uuid.uuid4().hex[:8]}"
    monkeypatch.setenv(SOURCE, topic)
    cluster = use("counts", MODULE)
    create_topics(cluster.bootstrap, [NewTopic(topic, 2, 1)])
    with acking(cluster), TopologyRunner(f"{MODULE}:counts", cluster.kafka, {"count": 2}) as runner:
        for part in range(2):
            write(cluster.bootstrap, topic, LINES[part::2], 2)
            counted = runner.stats()["count"].executed
            eventually(lambda: runner.stats()["count"].executed > counted + 500, "words counted")  # noqa: B023
            runner.kill("count")
        eventually(lambda: runner.stats()["lines"].acked >= len(LINES), "every line acked")
        runner.stop()
        assert runner.wait(0)
        with StateView(cluster.manifest.topology, "count", cluster.bootstrap) as view:
            found = dict(view.items())
    assert found == Counter(word for line in LINES for word in line.split())
