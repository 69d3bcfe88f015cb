"""The word count's plain count, the steady part of a round, and the figures of its rows."""

from collections import Counter

import pytest

from acker_cli.demo import text
from benchmarks import pipeline
from benchmarks import word_count as words
from benchmarks.comparison import Counted, Round, check, row
from benchmarks.harness import BenchmarkError, Spread
from benchmarks.processes import Sample, steady
from benchmarks.report import IN_WORDS, STEPS
from benchmarks.topologies import TASKS, Plan, lines, plain_count, word_count
from benchmarks.word_count import KAFKA_PENDING, Ours
from spout_sdk.testing import SimulatedCluster

OURS = Ours("ours", 100)


def test_lines_are_those_of_the_demo_and_repeat() -> None:
    whole = len(lines())
    assert plain_count(whole) == text.plain_count()
    assert plain_count(2 * whole + 3) == plain_count(whole) + plain_count(whole) + plain_count(3)


def test_the_steady_part_is_interpolated_between_samples() -> None:
    samples = [
        Sample(at, done, {"contestant": cpu, "broker": broker})
        for at, done, cpu, broker in ((0, 0, 0, 0), (5, 200, 4, 1), (7, 600, 8, 3), (8, 1_000, 9, 4))
    ]
    assert steady(samples, 100, 900) == Sample(5.25, 800, {"contestant": 6.75, "broker": 3.25})
    with pytest.raises(BenchmarkError, match="make it longer"):
        steady(samples[1:], 100, 900)


def test_a_wrong_count_is_an_error() -> None:
    right = plain_count(50)
    check(OURS, 50, right, exact=True)
    missing, more = right - Counter({next(iter(right)): 1}), right + Counter({"emma": 1})
    for wrong in (missing, more):
        with pytest.raises(BenchmarkError, match="wrong results of 50"):
            check(OURS, 50, wrong, exact=True)
    # The replays of a peer repeat results of the pipeline.
    check(OURS, 50, more, exact=False)


def test_each_contestant_is_named_in_words_with_its_open_lines() -> None:
    assert set(IN_WORDS) == {each.name for each in words.CONTESTANTS}
    assert set(STEPS) == {each.name for each in pipeline.CONTESTANTS}
    assert IN_WORDS["ours-kafka-arrow"].endswith(f"in record batches, {KAFKA_PENDING * TASKS:,} lines open")


@pytest.mark.parametrize("columns", [False, True])
def test_durable_counts_in_a_topic_are_those_of_a_plain_count(columns: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = Plan("words", topic="text", sink="counts", columns=columns)
    monkeypatch.setenv(*next(iter(plan.environment.items())))
    with SimulatedCluster(word_count(), topics={"text": 1, "counts": 1}) as cluster:
        for line in lines()[:40]:
            cluster.produce("text", line)
        cluster.run_until_idle()
        records = cluster.records("counts")
    found: Counter[str] = Counter()
    for record in records:
        word, count = (record.key() or b"").decode(), int(record.value() or b"")
        assert count == found[word] + 1
        found[word] = count
    assert found == plain_count(40)


def test_a_row_has_the_spread_of_the_steady_parts() -> None:
    rounds = [
        Round(1_000, Sample(seconds, 80, {"contestant": 0.008, "broker": 0.008}), 0.8, Counted(Counter()), 500)
        for seconds in (2.0, 4.0, 1.0)
    ]
    made = row(OURS, 100, "lines", rounds)
    assert made["tuples_per_s"] == Spread(400, 200, 800, (400, 200, 800))
    assert (made["cpu_us_per_tuple_with_broker"].median, made["kafka_bytes_per_tuple"].median) == (20, 0.5)
