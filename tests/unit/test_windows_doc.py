"""Runs the Python of `docs/windows.md`, and the example that it links."""

import json
import re
from collections import Counter
from typing import Any

import pytest

from examples import trending_words
from spout_sdk.testing import SimulatedCluster
from spout_sdk.windows import session, sliding, tumbling
from tests.pages import ROOT, names_of

PAGE = (ROOT / "docs" / "windows.md").read_text()


@pytest.fixture
def page() -> dict[str, Any]:
    """The names that the blocks of the page define, in order."""
    return names_of("docs/windows.md")


def test_the_median_of_a_sensor(page: dict[str, Any]) -> None:
    with SimulatedCluster(page["topology"], topics={"sensors": 1}) as cluster:
        for value in range(20):
            cluster.produce("sensors", json.dumps({"sensor": "a", "celsius": float(value)}))
        cluster.advance(2)
        results = [json.loads(record.value() or b"") for record in cluster.records("medians.results.median")]
        assert results == [{"sensor": "a", "median": 4.5}, {"sensor": "a", "median": 9.5}]


def test_the_table_of_kinds_is_right() -> None:
    kinds = re.findall(r"^\| `((?:tumbling|sliding|session)\(.*?\))`", PAGE, re.MULTILINE)
    assert len(kinds) == 5
    names = {"tumbling": tumbling, "sliding": sliding, "session": session}
    assert [str(eval(kind, names)) for kind in kinds] == kinds


def test_the_example_has_the_words_of_the_last_ten_seconds() -> None:
    lines = {"lines": [("to be or not to be",)] * 10}
    with SimulatedCluster(trending_words.topology, sources=lines) as cluster:
        for _ in range(30):
            cluster.feed("lines", ("to be",))
            cluster.advance(1)
        results = [json.loads(record.value() or b"") for record in cluster.records("trending-words.results.trending")]
        ends = [each["end"] for each in results]
        assert len({*ends}) > 5
        assert all(end % 2_000 == 0 for end in ends)
        assert max(Counter(ends).values()) <= 3


def test_a_minute_has_a_result_when_it_closes(page: dict[str, Any]) -> None:
    with SimulatedCluster(page["clicks"]()) as cluster:
        for at, euros in ((1_000, 2.0), (59_000, 3.5), (60_000, 1.0)):
            cluster.produce("clicks", json.dumps({"page": "a", "at": at, "euros": euros}))
        cluster.advance(25)  # the spout commits, and partitions without messages become idle
        (record,) = cluster.records("clicks-per-minute")
        minute = {"page": "a", "start": 0, "end": 60_000, "clicks": 2, "spent": 5.5, "largest": 3.5}
        assert json.loads(record.value() or b"") == minute
        assert cluster.state("clicks") == {("a", 60_000): {"clicks": 1, "spent": 1.0, "largest": 1.0}}
