"""The statistics of a driver: the latency of trees; an error there ends no query."""

import logging

import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from spark_jobs.delivering import NOTHING, SourceRoots
from spark_jobs.driver_stats import DriverStats, Tally
from spark_jobs.outcomes import Outcomes
from spark_jobs.spouts import spout_stats
from spout_sdk.statistics.stats import Stats
from tests.spark.topologies import manifest_of
from tests.waiting import eventually
from tuple_tree.messages import FailReason, NoticeBatch
from tuple_tree.positions import MAX_OFFSET, Position, positional_root, topic_key

KEY = topic_key("GHbxwU_dQ5eLMDKfVpT7Vg")


def test_the_complete_latency_is_that_of_the_attempt_that_was_acked() -> None:
    now = 100.0
    lines = manifest_of("words").component("lines")
    outcomes = Outcomes(SourceRoots(0, KEY, 8), 100, 10, 1_000.0, lambda: now)
    delivered = NOTHING._replace(positions=2 * MAX_OFFSET + np.array([10, 11]))
    outcomes.deliver(2, lambda: 0, lambda: False, lambda: delivered)

    def notice(attempt: int, reason: FailReason | None = None) -> None:
        roots = np.array([positional_root(Position(0, 2, 10, attempt), KEY, 8)], np.uint64)
        if reason is None:
            outcomes.read(NoticeBatch(0, 0, acked_roots=roots))
        else:
            reasons = np.array([reason], np.uint8)
            outcomes.read(NoticeBatch(0, 0, failed_roots=roots, fail_reasons=reasons, fail_messages=("",)))

    now += 5
    notice(0, FailReason.FAILED)
    now += 100
    assert outcomes.take_due(10, 10)
    now += 20
    notice(1)
    stats = spout_stats(Tally(lines), outcomes, True)
    message = Stats.of(stats)
    assert (message.acked, message.failed, message.pending) == (1, {"failed": 1}, 1)
    assert message.complete_latency.total == 1
    assert message.complete_latency.quantile(1.0) == pytest.approx(20, rel=0.125), "since the replay"

    registry = CollectorRegistry()
    registry.register(DriverStats({}, "words", lines, lambda: stats, lambda: None, lambda: True))
    labels = {"topology": "words", "component": "lines"}
    assert registry.get_sample_value("acker_component_acked_total", labels) == 1
    assert registry.get_sample_value("acker_component_failed_total", {**labels, "reason": "failed"}) == 1
    assert registry.get_sample_value("acker_component_pending", labels) == 1
    assert registry.get_sample_value("acker_component_complete_latency_seconds_count", labels) == 1


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
