"""The exposition of components says what their snapshots say."""

import json

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from spout_sdk import LatencyHistogram, Stats
from spout_sdk.metrics import ComponentCollector
from tuple_tree.manifest import BoltManifest, Manifest, SpoutManifest, Subscription
from tuple_tree.streams import declare

MANIFEST = Manifest.of(
    topology="words",
    max_tree_age_ms=300_000,
    components=(
        SpoutManifest(name="lines", tasks=3, streams=(declare(["line"]),), max_pending=100),
        BoltManifest(name="split", subscriptions=(Subscription(source="lines", stream="default", grouping="shuffle"),)),
    ),
)

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def scraped(*components: Stats) -> Samples:
    registry = CollectorRegistry()
    registry.register(ComponentCollector(MANIFEST, lambda: components))
    text = generate_latest(registry).decode()
    return {
        (sample.name.removeprefix("acker_component_"), frozenset(sample.labels.items()) - {("topology", "words")}): (
            sample.value
        )
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def key(name: str, component: str, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return name, frozenset({("component", component), *labels.items()})


def test_every_number_of_a_spout_is_shown() -> None:
    latency = LatencyHistogram()
    for seconds in (0.0005, 0.003, 0.003, 200.0):
        latency.record(seconds)
    samples = scraped(
        Stats(
            "lines",
            pids=(7, 8),
            tasks=(0, 2),
            emitted=10,
            transferred=11,
            executed=12,
            acked=13,
            failed={"timeout": 14, "lost": 15},
            pending=16,
            ignored_notices=17,
            dead_letters=18,
            errors=22,
            last_error="is not shown",
            throttled_seconds=23.5,
            undelivered=19,
            transactions=24,
            rollbacks=25,
            counters={"replayed": 20, 'odd "name"\n': 21},
            complete_latency=latency,
        )
    )
    buckets = {
        dict(labels)["le"]: value
        for (name, labels), value in samples.items()
        if name == "complete_latency_seconds_bucket"
    }
    assert {name_labels: value for name_labels, value in samples.items() if "bucket" not in name_labels[0]} == {
        key("processes", "lines"): 2,
        key("tasks_owned", "lines"): 2,
        key("emitted_total", "lines"): 10,
        key("transferred_total", "lines"): 11,
        key("executed_total", "lines"): 12,
        key("acked_total", "lines"): 13,
        key("failed_total", "lines", reason="failed"): 0,
        key("failed_total", "lines", reason="timeout"): 14,
        key("failed_total", "lines", reason="too_old"): 0,
        key("failed_total", "lines", reason="lost"): 15,
        key("pending", "lines"): 16,
        key("max_pending", "lines"): 200,
        key("ignored_notices_total", "lines"): 17,
        key("dead_letters_total", "lines"): 18,
        key("undelivered_total", "lines"): 19,
        key("errors_total", "lines"): 22,
        key("throttled_seconds_total", "lines"): 23.5,
        key("transactions_total", "lines"): 24,
        key("rollbacks_total", "lines"): 25,
        key("user_total", "lines", counter="replayed"): 20,
        key("user_total", "lines", counter='odd "name"\n'): 21,
        key("complete_latency_seconds_count", "lines"): 4,
        key("complete_latency_seconds_sum", "lines"): pytest.approx(200.0065, rel=1 / 16),
    }
    bounds = list(buckets)
    assert bounds[0] == "0.001024"
    assert bounds[-2:] == ["134.217728", "+Inf"]
    assert [buckets[bound] for bound in ("0.001024", "0.002048", "0.004096", "134.217728", "+Inf")] == [1, 1, 3, 3, 4]


def test_a_bolt_has_no_trees() -> None:
    samples = scraped(Stats("split", pids=(1,), tasks=(0,), executed=5, acked=4, failed={"failed": 1}, pending=2))
    assert samples[key("executed_total", "split")] == 5
    assert samples[key("pending", "split")] == 2
    assert samples[key("failed_total", "split", reason="failed")] == 1
    assert not any("complete_latency" in name or name == "max_pending" for name, _ in samples)


def test_the_latencies_of_a_bolt() -> None:
    execute, process = LatencyHistogram(), LatencyHistogram()
    for seconds in (0.00001, 0.001, 20.0):
        execute.record(seconds)
    process.record(0.5)
    samples = scraped(Stats("split", execute_latency=execute, process_latency=process))
    bounds = {"1.6e-05": 1, "0.001024": 2, "8.388608": 2, "+Inf": 3}
    assert {bound: samples[key("execute_latency_seconds_bucket", "split", le=bound)] for bound in bounds} == bounds
    assert samples[key("process_latency_seconds_count", "split")] == 1
    assert samples[key("process_latency_seconds_sum", "split")] == pytest.approx(0.5, rel=1 / 16)


def test_no_number_of_a_snapshot_is_forgotten() -> None:
    said = {"pids": [1], "tasks": [0], "failed": {"failed": 1}, "counters": {"own": 1}, "complete_latency": {"9": 1}}
    for latency in ("execute_latency", "process_latency"):
        said[latency] = said["complete_latency"]
    for component in ("lines", "split"):
        unchanged, nothing = scraped(Stats(component)), json.loads(Stats(component).to_json())
        others = {"complete_latency"} if component == "split" else {"execute_latency", "process_latency"}
        # The text of an error is no metric: it would be a label of its own each time.
        for name in nothing.keys() - {"component", "last_error"} - others:
            changed = Stats.from_json(json.dumps({**nothing, name: said.get(name, 5)}))
            assert scraped(changed) != unchanged, name


def test_components_stand_side_by_side() -> None:
    samples = scraped(Stats("lines", emitted=1), Stats("split", emitted=2))
    assert samples[key("emitted_total", "lines")] == 1
    assert samples[key("emitted_total", "split")] == 2
