"""The topics that `acker run --local` creates beside those of the topology."""

from concurrent.futures import Future
from unittest.mock import Mock

import pytest

from acker_cli.cluster import local
from kafka_clients import new_topics
from spout_sdk import KafkaBolt, KafkaSpout, TopologyBuilder


def test_it_waits_until_the_broker_knows_the_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    created: Future[None] = Future()
    created.set_result(None)
    answers = iter([{}, {}, {"in": 1}, {"in": 1, "out": 1}])
    catalogue = Mock(topics=lambda: next(answers), contact_s=1.0)
    catalogue.admin.create_topics.return_value = {"in": created}
    monkeypatch.setattr(local, "Catalogue", lambda _kafka: catalogue)
    monkeypatch.setattr(new_topics, "_LOOK_SECONDS", 0.0)
    builder = TopologyBuilder("copies")
    builder.set_spout("lines", KafkaSpout("in"))
    builder.set_bolt("publish", lambda: KafkaBolt("out")).shuffle_grouping("lines")
    local.create_topics({}, builder.build(), 1)
    assert {topic.topic for topic in catalogue.admin.create_topics.call_args.args[0]} == {"in", "out"}
    assert next(answers, None) is None
