"""What the demo reports, and when it calls itself right."""

from collections import Counter

import pytest

from acker_cli.demo.report import Comparison, DemoReport
from acker_cli.demo.text import lines, plain_count, words
from acker_cli.snapshot import TopologySnapshot
from acker_worker.stats import WorkerStats
from spout_sdk import LatencyHistogram, Stats

FIELDS = {
    "emitted",
    "acked",
    "failed",
    "replayed",
    "pending",
    "orphans",
    "duplicate_inits",
    "lines",
    "lines_acked",
    "counts_match",
    "seconds",
    "tuples_per_second",
    "complete_latency_ms",
    "acker_kills",
    "bolt_kills",
}


def snapshot(ackers: WorkerStats | None = None) -> TopologySnapshot:
    latency = LatencyHistogram()
    for milliseconds in range(1, 101):
        latency.record(milliseconds / 1000)
    return TopologySnapshot(
        seconds=12.0,
        spouts=frozenset({"lines"}),
        components={
            "lines": Stats(
                "lines",
                emitted=12,
                acked=10,
                failed={"failed": 1, "timeout": 1},
                counters={"replayed": 2},
                complete_latency=latency,
            ),
            "split": Stats("split", executed=12, acked=11, failed={"failed": 1}),
            "count": Stats("count", executed=88),
        },
        ackers=ackers,
    )


def report(lines_acked: int = 10, counted: str = "a b b", ackers: WorkerStats | None = None) -> DemoReport:
    return DemoReport(
        last=snapshot(ackers),
        lines=10,
        lines_acked=lines_acked,
        seconds=4.0,
        comparison=Comparison(Counter(["a", "b", "b"]), Counter(counted.split())),
        acker_kills=1,
        bolt_kills=0,
    )


def test_json_has_all_fields() -> None:
    said = report(ackers=WorkerStats(orphans=3, orphans_expired=4, duplicate_inits=5)).to_json()
    assert said.keys() >= FIELDS
    assert said["emitted"] == 12
    assert said["failed"] == 2
    assert said["failed_by_reason"] == {"failed": 1, "timeout": 1}
    assert said["replayed"] == 2
    assert (said["orphans"], said["duplicate_inits"], said["pending"]) == (7, 5, 0)
    assert said["tuples_per_second"] == 25
    assert said["complete_latency_ms"]["p50"] == pytest.approx(50, rel=0.13)
    assert said["complete_latency_ms"]["p99"] == pytest.approx(99, rel=0.13)
    assert (said["acker_kills"], said["bolt_kills"]) == (1, 0)


def test_it_is_right_only_if_all_lines_are_acked_and_counts_match() -> None:
    assert report().is_right
    assert not report(lines_acked=9).is_right
    assert not report(counted="a b").is_right


def test_pending_are_open_lines_or_what_a_ledger_holds() -> None:
    assert report(lines_acked=7).pending == 3
    assert report(ackers=WorkerStats(pending=2)).pending == 2


def test_the_comparison_is_word_by_word() -> None:
    comparison = Comparison(Counter(a=2, b=1, c=5), Counter(a=1, b=2, d=1, c=5))
    assert not comparison.matches
    assert comparison.expected.total() == comparison.counted.total() - 1
    assert comparison.differences() == [("a", 2, 1), ("b", 1, 2), ("d", 0, 1)]
    assert "'a' 1 instead of 2" in comparison.in_words()


def test_equal_totals_do_not_make_a_match() -> None:
    assert not Comparison(Counter(a=2, b=1), Counter(a=1, b=2)).matches


def test_the_verdict_names_totals() -> None:
    assert Comparison(Counter(a=2, b=1), Counter(a=2, b=1)).in_words().startswith("counts match: 3 words, 2 distinct")


def test_words_of_people() -> None:
    said = "\n".join(report().in_words())
    assert "10 of 10 lines acked in 4.0 s: 100 tuples, 25 a second" in said
    assert "failed 2 (1 failed, 1 timeout), replayed 2" in said
    assert "1 acker worker, 0 bolt process" in said


def test_what_a_word_is() -> None:
    assert words("\"It's _so_ well-known,\" said Mr. O'Neil's") == [
        "it's",
        "so",
        "well",
        "known",
        "said",
        "mr",
        "o'neil's",
    ]
    assert words("") == []
    assert words("'' * * *  1813") == []


def test_the_text_is_a_real_one() -> None:
    assert sum(len(line) + 1 for line in lines()) > 1_000_000
    count = plain_count()
    assert count.total() > 250_000
    assert count.most_common(1)[0][0] == "the"
    assert count["darcy"] > 100


def test_a_part_of_the_text_is_its_beginning() -> None:
    assert lines(100) == lines()[:100]
    assert lines(10**9) == lines()
    assert plain_count(100) == Counter(word for line in lines()[:100] for word in words(line))
