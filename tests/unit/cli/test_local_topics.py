"""The topics that `acker run --local` creates beside those of the topology."""

from concurrent.futures import Future
from typing import Any

import pytest

from acker_cli.cluster import local
from spout_sdk import KafkaBolt, KafkaSpout, TopologyBuilder


class Catalogue:
    """Of a broker that learns of a new topic when it is asked for the third time."""

    def __init__(self, _kafka: Any) -> None:
        self.admin = self
        self.asked = 0

    def create_topics(self, topics: Any, *_arguments: Any) -> dict[str, Future[None]]:
        if not isinstance(topics, list):
            return {}  # those of the topology
        created: Future[None] = Future()
        created.set_result(None)
        self.names = {topic.topic for topic in topics}
        return dict.fromkeys(self.names, created)

    def publish(self, _manifest: Any) -> None:
        """Nothing reads it."""

    def topics(self) -> dict[str, int]:
        self.asked += 1
        return dict.fromkeys(self.names, 1) if self.asked > 3 else {}


def test_it_waits_until_the_broker_knows_the_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Catalogue] = []

    def catalogue(kafka: Any) -> Catalogue:
        made.append(Catalogue(kafka))
        return made[-1]

    monkeypatch.setattr(local, "Catalogue", catalogue)
    monkeypatch.setattr(local, "_LOOK_SECONDS", 0.0)
    builder = TopologyBuilder("copies")
    builder.set_spout("lines", KafkaSpout("in"))
    builder.set_bolt("publish", lambda: KafkaBolt("out")).shuffle_grouping("lines")
    local.create_topics({}, builder.build(), 1)
    assert made[0].names == {"in", "out"}
    assert made[0].topics().keys() == {"in", "out"}
    assert made[0].asked == 5
