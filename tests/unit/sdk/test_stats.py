"""Stats, the latency histogram, and their exposition for Prometheus."""

import random
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from spout_sdk import FailReason
from spout_sdk.errors import SpoutSdkError
from spout_sdk.statistics import LatencyHistogram, Stats
from spout_sdk.statistics.metrics import ComponentCollector
from spout_sdk.statistics.state_stats import StateStats
from spout_sdk.statistics.stats import Counters, Counts
from tests.manifests import bolt, manifest, spout


def histogram(*seconds: float) -> LatencyHistogram:
    made = LatencyHistogram()
    for duration in seconds:
        made.record(duration)
    return made


def test_quantiles_are_within_an_eighth() -> None:
    rng = random.Random(5)
    durations = sorted(rng.lognormvariate(-5, 2) for _ in range(20_000))
    made = histogram(*durations)
    for q in (0.01, 0.5, 0.9, 0.99, 0.999):
        true = durations[int(q * len(durations))]
        assert abs(made.quantile(q) - true) <= true / 8 + 1e-6
    assert histogram().quantile(0.5) == 0.0
    assert histogram(0.0, -1.0).quantile(1.0) < 1e-6
    assert histogram(1e5).quantile(0.5) == pytest.approx(1e5, rel=0.125)
    with pytest.raises(ValueError, match="between 0 and 1"):
        histogram().quantile(2)


@given(st.lists(st.integers(0, 2**30), max_size=30), st.lists(st.integers(0, 2**30), max_size=30), st.integers(3, 30))
def test_counts_sums_and_merges_are_those_of_all_recorded_values(left: list[int], right: list[int], power: int) -> None:
    seconds = [(micros + 0.5) / 1e6 for micros in (*left, *right)]
    merged = histogram(*seconds[: len(left)])
    merged.merge(histogram(*seconds[len(left) :]))
    assert merged == histogram(*seconds)
    assert merged.total == len(left) + len(right)
    # Exact below a power of two.
    assert merged.shorter_than(power) == sum(micros < 2**power for micros in (*left, *right))
    assert merged.seconds == pytest.approx(sum(seconds), rel=1 / 16 + 1e-3, abs=len(seconds) * 1e-5)


# All but `errors`: each snapshot has one.
COUNTED = [each.name for each in fields(Counts) if each.default == 0 and each.name != "errors"]
LATENCIES = ("complete_latency", "execute_latency", "process_latency")


def snapshot(pid: int, **user_counters: int) -> Stats:
    counters = Counters()
    for number, name in enumerate(COUNTED, start=10 * pid):
        setattr(counters, name, number)
    for number, name in enumerate(LATENCIES, start=1):
        getattr(counters, name).record(number * pid)
    counters.count_failed(FailReason.TIMEOUT)
    counters.users.update(user_counters)
    counters.load(2 * pid).executed = pid
    counters.load(2 * pid).busy_seconds = 0.0104 * pid
    counters.count_error(ValueError(f"of {pid}"))
    tasks = (2 * pid, 2 * pid + 1)
    taken = Stats("split", (pid,), tasks, pending=7, sources=("orders",), **counters.snapshot())
    assert [getattr(taken, name) for name in COUNTED] == [*range(10 * pid, 10 * pid + len(COUNTED))]
    assert [getattr(taken, name) for name in LATENCIES] == [histogram(number * pid) for number in (1, 2, 3)]
    # A snapshot does not follow the counters.
    counters.users["later"] = 1
    counters.count_failed(FailReason.LOST)
    counters.complete_latency.record(1.0)
    return taken


def test_stats_add_up_and_survive_json() -> None:
    one, other = snapshot(1, first=1, both=2), snapshot(3, both=4)
    total = one.merge(other)
    assert [getattr(total, name) for name in COUNTED] == [getattr(one, name) + getattr(other, name) for name in COUNTED]
    assert [getattr(total, name) for name in LATENCIES] == [histogram(number, 3 * number) for number in (1, 2, 3)]
    assert (total.component, total.pids, total.tasks) == ("split", (1, 3), (2, 3, 6, 7))
    assert (total.failed, total.counters) == ({"timeout": 2}, {"first": 1, "both": 6})
    assert (total.pending, total.errors, total.last_error) == (14, 2, "ValueError: of 3")
    assert (total.task_executed, total.task_busy_ms) == ({"2": 1, "6": 3}, {"2": 10, "6": 31})
    assert total.sources == ("orders",)
    line = total.to_json()
    assert "\n" not in line
    assert Stats.from_json(line) == Stats.from_json(line.encode()) == total
    retired = total.retired()
    assert (retired.pids, retired.tasks, retired.pending, retired.emitted) == ((), (), 0, 40)
    for invalid in ("", "{}", "[]", '{"complete_latency":{},"pids":[],"tasks":[],"no":1}'):
        with pytest.raises(SpoutSdkError, match="not a line of stats"):
            Stats.from_json(invalid)


def test_states_add_up_survive_json_and_are_left_out_where_there_are_none() -> None:
    one = StateStats("each tuple once", {"0": 3, "1": 4}, {"0": 30, "1": 40}, {"0": 1, "1": 2})
    rest: Any = ((2,), 600, 300.0, 550, 1000, 2.0)
    moved = StateStats("each tuple once", {"1": 5}, {"1": 50}, {"1": 6}, *rest)
    total = Stats("count", (1,), state=one).merge(Stats("lines", (2,))).merge(Stats("count", (3,), state=moved))
    state = StateStats("each tuple once", {"0": 3, "1": 5}, {"0": 30, "1": 50}, {"0": 1, "1": 6}, *rest)
    assert total.state == state
    assert (state.keys, state.bytes, state.identities, state.restored) == (8, 80, 7, 0.45)
    assert Stats.from_json(total.to_json()) == total
    assert total.retired().state is None
    assert "state" not in Stats("lines").to_dict()
    later = {**total.to_dict(), "state": {**state.to_dict(), "unknown": 1}}
    assert Stats.of(later) == total
    with pytest.raises(SpoutSdkError, match="not a line of stats"):
        Stats.from_json('{"component": "count", "state": {"task_keys": 7}}')


MANIFEST = manifest(spout("lines", tasks=3, max_pending=100), bolt("split", "lines"))

Key = tuple[str, frozenset[tuple[str, str]]]


def scraped(*components: Stats) -> dict[Key, float]:
    registry = CollectorRegistry()
    registry.register(ComponentCollector(MANIFEST, lambda: components))
    families = text_string_to_metric_families(generate_latest(registry).decode())
    samples = [sample for family in families for sample in family.samples]
    return {
        (each.name.removeprefix("acker_component_"), frozenset(each.labels.items())): each.value for each in samples
    }


def key(name: str, component: str, **labels: str) -> Key:
    return name, frozenset({("component", component), ("topology", "words"), *labels.items()})


def test_every_number_of_a_spout_is_exposed() -> None:
    numbers: dict[str, Any] = {name: number for number, name in enumerate([*COUNTED, "errors"], start=10)}
    numbers |= {"failed": {"timeout": 34, "lost": 35}, "counters": {"replayed": 40, 'odd "name"\n': 41}}
    lines = Stats("lines", pids=(7, 8), tasks=(0, 2), pending=36, last_error="is not shown", **numbers)
    assert {each: value for each, value in scraped(lines).items() if value} == {
        **{key(f"{name}_total", "lines"): numbers[name] for name in (*COUNTED, "errors")},
        **{key("failed_total", "lines", reason=reason): count for reason, count in lines.failed.items()},
        **{key("user_total", "lines", counter=counter): count for counter, count in lines.counters.items()},
        key("processes", "lines"): 2,
        key("tasks_owned", "lines"): 2,
        key("pending", "lines"): 36,
        key("max_pending", "lines"): 200,
    }


def test_states_are_exposed_of_bolts_with_one_only() -> None:
    state = StateStats("", {"0": 3, "1": 4}, {"0": 30}, {"0": 1}, (1, 2), 600, 300.0, 550, 1000, 2.5)
    found = scraped(Stats("split", state=state), Stats("lines"))
    expected: dict[str, float] = {"state_keys": 7, "state_bytes": 30, "state_identities": 1}
    expected |= {"restoring_tasks": 2, "restore_left": 550, "restore_seconds": 2.5}
    shown = {each: value for each, value in found.items() if each[0] in expected}
    assert shown == {key(name, "split"): value for name, value in expected.items()}


def test_latencies_are_exposed_as_cumulative_buckets() -> None:
    execute, process = histogram(0.00001, 0.001, 20.0), histogram(0.5)
    samples = scraped(Stats("split", execute_latency=execute, process_latency=process))
    bounds = {"1.6e-05": 1, "0.001024": 2, "8.388608": 2, "+Inf": 3}
    assert {bound: samples[key("execute_latency_seconds_bucket", "split", le=bound)] for bound in bounds} == bounds
    assert samples[key("process_latency_seconds_count", "split")] == 1
    assert samples[key("process_latency_seconds_sum", "split")] == pytest.approx(0.5, rel=1 / 16)
