"""Stats and the latency histogram."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spout_sdk import FailReason, LatencyHistogram, SpoutSdkError, Stats
from spout_sdk.counters import Counters


def histogram(seconds: list[float]) -> LatencyHistogram:
    made = LatencyHistogram()
    for duration in seconds:
        made.record(duration)
    return made


def test_quantiles_are_within_an_eighth() -> None:
    rng = random.Random(5)
    durations = sorted(rng.lognormvariate(-5, 2) for _ in range(20_000))
    made = histogram(durations)
    for q in (0.01, 0.5, 0.9, 0.99, 0.999):
        true = durations[int(q * len(durations))]
        assert abs(made.quantile(q) - true) <= true / 8 + 1e-6


def test_the_ends_of_the_scale() -> None:
    assert LatencyHistogram().quantile(0.5) == 0.0
    assert histogram([0.0, -1.0]).quantile(1.0) < 1e-6
    assert histogram([1e5]).quantile(0.5) == pytest.approx(1e5, rel=0.125)
    with pytest.raises(ValueError, match="between 0 and 1"):
        LatencyHistogram().quantile(2)


@given(st.lists(st.integers(0, 2**30)), st.integers(3, 30))
def test_counts_below_a_power_of_two_are_exact(micros: list[int], power: int) -> None:
    made = histogram([(duration + 0.5) / 1e6 for duration in micros])
    assert made.shorter_than(power) == sum(duration < 2**power for duration in micros)


@given(st.lists(st.floats(1e-5, 1e4), min_size=1))
def test_the_sum_is_within_a_sixteenth(seconds: list[float]) -> None:
    assert histogram(seconds).seconds == pytest.approx(sum(seconds), rel=1 / 16 + 1e-3)


@given(st.lists(st.floats(0, 1e4)), st.lists(st.floats(0, 1e4)))
def test_merging_is_recording_all(left: list[float], right: list[float]) -> None:
    merged = histogram(left)
    merged.merge(histogram(right))
    assert merged == histogram(left + right)
    assert merged.total == len(left) + len(right)


def snapshot(pid: int, *, tasks: tuple[int, ...], pending: int) -> Stats:
    counters = Counters()
    counters.emitted, counters.transferred, counters.executed, counters.acked = 10 * pid, 20 * pid, pid, 2 * pid
    counters.count_failed(FailReason.TIMEOUT)
    if pid > 1:
        counters.count_failed(FailReason.FAILED)
    counters.ignored_notices = counters.dead_letters = counters.undelivered = pid
    counters.transactions = counters.rollbacks = pid
    counters.users = {f"of-{pid}": 1, "both": pid}
    counters.complete_latency.record(pid / 1000)
    counters.execute_latency.record(pid / 100)
    counters.process_latency.record(pid / 10)
    counters.throttled_seconds = float(pid)
    for number in range(pid):
        counters.count_error(ValueError(f"{number} of {pid}"))
    return Stats.snapshot("split", pid, tasks, pending, counters)


def test_stats_add_up() -> None:
    total = snapshot(1, tasks=(2,), pending=5).merge(snapshot(3, tasks=(0, 1), pending=6))
    assert total == Stats(
        component="split",
        pids=(1, 3),
        tasks=(0, 1, 2),
        emitted=40,
        transferred=80,
        executed=4,
        acked=8,
        failed={"timeout": 2, "failed": 1},
        pending=11,
        ignored_notices=4,
        errors=4,
        last_error="ValueError: 2 of 3",
        dead_letters=4,
        undelivered=4,
        transactions=4,
        rollbacks=4,
        counters={"of-1": 1, "of-3": 1, "both": 4},
        throttled_seconds=4.0,
        complete_latency=histogram([0.001, 0.003]),
        execute_latency=histogram([0.01, 0.03]),
        process_latency=histogram([0.1, 0.3]),
    )


def test_stats_survive_json() -> None:
    stats = snapshot(3, tasks=(0, 1), pending=6)
    line = stats.to_json()
    assert "\n" not in line
    assert Stats.from_json(line) == stats
    assert Stats.from_json(line.encode()) == stats


@pytest.mark.parametrize("line", ["", "{}", "[]", '{"complete_latency":{},"pids":[],"tasks":[],"no":1}'])
def test_other_json_is_refused(line: str) -> None:
    with pytest.raises(SpoutSdkError, match="not a line of stats"):
        Stats.from_json(line)


def test_a_retired_process_keeps_its_counts_only() -> None:
    retired = snapshot(3, tasks=(0, 1), pending=6).retired()
    assert (retired.pids, retired.tasks, retired.pending, retired.emitted) == ((), (), 0, 30)


def test_a_snapshot_does_not_follow_the_counters() -> None:
    counters = Counters()
    taken = Stats.snapshot("split", 1, (), 0, counters)
    counters.users["x"] = 1
    counters.count_failed(FailReason.LOST)
    counters.complete_latency.record(1.0)
    assert (dict(taken.counters), dict(taken.failed), taken.complete_latency.total) == ({}, {}, 0)
