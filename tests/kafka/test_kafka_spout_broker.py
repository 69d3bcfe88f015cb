"""A `KafkaSpout` whose broker goes away and comes back."""

import uuid
from pathlib import Path

import pytest

from local_kafka import LocalKafka
from spout_sdk import TopologyRunner
from tests.kafka.sdk_topologies import NAME
from tests.kafka.source_rig import Source
from tests.kafka.source_topologies import SOURCE
from tests.waiting import eventually


def test_it_goes_on_when_the_broker_is_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unique = uuid.uuid4().hex[:8]
    monkeypatch.setenv(NAME, f"gone-{unique}")
    monkeypatch.setenv(SOURCE, f"source-{unique}")
    values = [str(number) for number in range(2_000)]
    with LocalKafka(data_dir=tmp_path) as kafka:
        source = Source(kafka.bootstrap_servers, "two_tasks", {f"source-{unique}": 4})
        source.feed(values[:1_000])
        with source.acker(), TopologyRunner(source.reference, source.kafka) as runner:
            eventually(lambda: "see" in runner.stats() and runner.stats()["see"].executed > 100, "some processed")
            kafka.stop()
            kafka.start()
            source.feed(values[1_000:])
            source.await_all_committed(150)
            runner.stop()
            assert runner.stats()["see"].counters.keys() == set(values)
            assert runner.stats()["lines"].dead_letters == 0
