"""The statistics of a driver: the latency of trees; an error there ends no query."""

import logging

import pytest
from prometheus_client import CollectorRegistry

from spark_jobs.delivering import SourceRoots
from spark_jobs.driver_stats import DriverStats, Tally
from spark_jobs.outcomes import Outcomes
from spark_jobs.spouts import spout_stats
from spout_sdk.statistics import Stats
from tests.spark.topologies import manifest_of
from tests.unit.spark.outcomes_rig import KEY, LIMIT, RETRIES, Clock, ack, deliver, fail, taken
from tests.waiting import eventually
from tuple_tree.positions import Position


def test_the_complete_latency_is_that_of_the_attempt_that_was_acked(clock: Clock) -> None:
    lines = manifest_of("words").component("lines")
    outcomes = Outcomes(SourceRoots(3, KEY, 8), LIMIT, RETRIES, 1_000.0, clock)
    deliver(outcomes, 2, [10, 11])
    clock.now += 5
    fail(outcomes, Position(3, 2, 10))
    clock.now += 100
    assert taken(outcomes)
    clock.now += 20
    ack(outcomes, Position(3, 2, 10, 1))
    stats = spout_stats(Tally(lines), outcomes, True)
    message = Stats.of(stats)
    assert (message.acked, message.failed, message.pending) == (1, {"failed": 1}, 1)
    assert message.complete_latency.total == 1
    assert message.complete_latency.quantile(1.0) == pytest.approx(20, rel=0.125), "since the replay"

    registry = CollectorRegistry()
    registry.register(DriverStats({}, "words", lines, lambda: stats, lambda: None, lambda: True))
    labels = {"topology": "words", "component": "lines"}
    assert registry.get_sample_value("acker_component_failed_total", {**labels, "reason": "failed"}) == 1
    for name in ("acked_total", "pending", "complete_latency_seconds_count"):
        assert registry.get_sample_value(f"acker_component_{name}", labels) == 1


def test_invalid_client_settings_do_not_end_the_query(caplog: pytest.LogCaptureFixture) -> None:
    kafka = {"bootstrap.servers": "localhost:1", "no.such.thing": 1}
    split = manifest_of("words").component("split")
    stats = DriverStats(kafka, "words", split, dict, lambda: None, lambda: True)
    with caplog.at_level(logging.WARNING):
        stats.start()
        eventually(lambda: caplog.records, "what went wrong")
        stats.end()
    assert "will not show words.split" in caplog.text
    assert "no.such.thing" in caplog.text
