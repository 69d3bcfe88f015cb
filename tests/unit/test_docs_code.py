"""Runs the Python of all pages, and the tests that they contain; some pages have test modules of their own."""

import json
import re
import sys
from functools import reduce
from operator import xor
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from examples import running_totals
from local_kafka import LocalKafka
from spout_sdk import BasicBolt, BasicCollector, TopologyBuilder, Tuple
from spout_sdk.testing import SimulatedCluster
from tests.pages import ROOT, blocks, names_of

DOCS = ROOT / "docs"
OTHER_TESTS = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py") if path != Path(__file__))
"""Test modules that run the Python of a page name it."""
PAGES = [
    page
    for path in sorted(DOCS.rglob("*.md"))
    if blocks(page := path.relative_to(ROOT).as_posix()) and f'"{page}"' not in OTHER_TESTS
]


@pytest.mark.parametrize("page", PAGES)
def test_the_tests_of_a_page_pass(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tests = [value for name, value in names_of(page).items() if name.startswith("test_")]
    for test in tests:
        test()
    assert len(tests) == len(re.findall(r"^def test_", "".join(blocks(page)), re.MULTILINE))


def test_the_example_of_running_totals() -> None:
    with SimulatedCluster(running_totals.topology) as cluster:
        for number in range(10):
            cluster.produce(running_totals.ORDERS, f'{{"customer": "customer-{number % 2}", "cents": {number}}}')
        cluster.run_until_idle()
        customers = {f"customer-{number}": 20 + 5 * number for number in range(2)}
        expected = {name: {"customer": name, "orders": 5, "cents": cents} for name, cents in customers.items()}
        assert cluster.state("totals") == expected
        written = [json.loads(record.value() or b"") for record in cluster.records(running_totals.TOTALS)]
        assert {total["customer"]: total for total in written} == expected


class Seen(BasicBolt):
    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        """The test reads its inputs from the cluster."""


def test_tuples_are_executed_again_as_often_as_the_page_states() -> None:
    names = names_of("docs/how-to/retry.md")
    with SimulatedCluster(names["retried"]()) as cluster:
        cluster.produce("orders", "unpayable")
        for attempts, seconds in ((1, 0.9), (2, 9.9), (3, 19.9), (4, 5)):
            cluster.advance(seconds)
            assert len(names["ATTEMPTS"]) == attempts
        [letter] = cluster.dead_letters()
        last = "ConnectionError: the bank does not answer"
        assert letter.detail == f"4 executions of the tuple failed, the last one with {last}"
        assert cluster.failed("orders") == []


def test_rows_are_emitted_until_they_are_done() -> None:
    names = names_of("docs/how-to/replay.md")
    with SimulatedCluster(names["topology"]) as cluster:
        cluster.run_until(lambda: cluster.executed("charge"))
        cluster.kill("rows")
        cluster.advance(40)
        assert names["TABLE"] == {}
        assert {order for (order,) in cluster.executed("charge")} == {"first", "unpayable", "third"}
        assert {letter.detail for letter in cluster.dead_letters()} == {"ValueError: the card was declined"}


def test_the_sums_of_the_walk_through_are_right() -> None:
    """The sums in the figure are right, and those of the page."""
    figure = (DOCS / "images" / "walk-through.svg").read_text()
    sums = re.findall(r"([01 ^]{5,}) = ([01]{4})", figure)
    assert len(sums) == 4
    for terms, result in sums:
        assert reduce(xor, (int(term, 2) for term in terms.split(" ^ "))) == int(result, 2)


def test_the_landing_page() -> None:
    with SimulatedCluster(names_of("docs/index.md")["words"]) as cluster:
        cluster.produce("lines", "to be or not to be")
        cluster.run_until_idle()
        assert cluster.state("count") == {"to": 2, "be": 2, "or": 1, "not": 1}


def test_steps() -> None:
    with SimulatedCluster(names_of("docs/steps.md")["topology"], step=0.5) as cluster:
        for at in (1_000, 2_000, 200_000):
            cluster.produce("orders", json.dumps({"id": "1", "at": at, "items": ["tea", "milk", "beer"], "unknown": 1}))
        cluster.produce("orders", '{"id": "2", "at": 3, "items": ["tea", 3]}')
        cluster.advance(60)
        assert cluster.state("number") == {"tea": 3, "milk": 3}
        minutes = [json.loads(record.value() or b"") for record in cluster.records("minutes")]
        assert {"name": "tea", "start": 0, "sold": 2, "euros": 6.0} in minutes
        assert cluster.stats("log").counters == {"beer": 3}
        assert {json.loads(record.value() or b"")["name"] for record in cluster.records("long")} == {"milk", "beer"}
        [letter] = cluster.dead_letters()
        assert "Expected `str`, got `int` - at `$.items[1]`" in letter.detail


def test_from_storm() -> None:
    with SimulatedCluster(names_of("docs/coming-from/storm.md")["topology"]) as cluster:
        cluster.run_until(lambda: len(cluster.acked("sentences")) > 20)
        assert {"cow", "apple", "score"} <= {word for (word,) in cluster.emitted("split")}


def test_from_streamparse() -> None:
    with SimulatedCluster(names_of("docs/coming-from/streamparse.md")["topology"]) as cluster:
        cluster.run_until(lambda: ("zebra", 10) in cluster.emitted("count"))
        assert cluster.pending("words") == []


def test_from_parallel_consumers() -> None:
    names = names_of("docs/coming-from/parallel-consumers.md")
    with SimulatedCluster(names["topology"], topics={"orders": 1}, paused=["mail"]) as cluster:
        cluster.produce("orders", '{"customer": "ada", "cents": 5}')
        cluster.run_until_idle()
        assert cluster.emitted("charge") == [("ada", "ada paid 5")]
        assert cluster.acked("orders") == []  # charged, and still open
        cluster.resume("mail")
        cluster.run_until_idle()
        assert cluster.bolt("mail").sent == ["ada paid 5"]
        assert len(cluster.acked("orders")) == 1


def test_from_quix_streams() -> None:
    with SimulatedCluster(names_of("docs/coming-from/quix-streams.md")["topology"], topics={"readings": 1}) as cluster:
        for sensor, celsius in (("sun", 50), ("sun", 30), ("ice", -2), ("broken", -300)):
            cluster.produce("readings", f'{{"sensor": "{sensor}", "celsius": {celsius}, "at": 1000}}')
        for sensor in ("sun", "ice"):  # a later time closes the windows of their tasks
            cluster.produce("readings", f'{{"sensor": "{sensor}", "celsius": 0, "at": 60000}}')
        cluster.advance(25)
        records = [json.loads(record.value() or b"") for record in cluster.records("weather.results.mean")]
        found = {each["sensor"]: each["mean"] for each in records}
        assert found == {"ice": pytest.approx(28.4), "sun": pytest.approx(104.0)}
        assert cluster.bolt("alert").alerts == ["sun"]
        assert cluster.uncommitted("readings") == {"readings[0]": 0}


def test_kafka_spouts() -> None:
    names = names_of("docs/kafka-spout.md")
    with SimulatedCluster(names["builder"].build(), topics={"lines-of-text": 4}) as cluster:
        cluster.produce("lines-of-text", "to be")
        cluster.run_until_idle()
        assert cluster.emitted("words") == [(["to", "be"],)]

    builder = TopologyBuilder("translated")
    builder.set_spout("orders", names["spout"])
    builder.set_bolt("seen", Seen).shuffle_grouping("orders")
    with SimulatedCluster(builder.build(), topics={"orders": 1, "returns": 1}) as cluster:
        cluster.produce("orders", '{"total": 5.5}', key="ann")
        cluster.produce("returns", None, key="bob")
        cluster.run_until_idle()
        assert cluster.executed("seen") == [("ann", 5.5)]
    assert names["patient"] is not names["spout"]


def test_words_are_counted_once_after_kills() -> None:
    names = names_of("docs/state.md")
    with SimulatedCluster(names["words"]().topology(), step=0.5) as cluster:
        cluster.set_state("count", {"be": 40})
        cluster.produce("lines", "to be or not to be")
        cluster.run_until_idle()
        cluster.kill("split")  # it executes the line again
        for task in range(4):
            cluster.kill("count", task)
        cluster.produce("lines", "to be")
        cluster.advance(60)
        assert cluster.state("count") == {"to": 3, "be": 43, "or": 1, "not": 1}


def test_chained_bolts() -> None:
    with SimulatedCluster(names_of("docs/chained-bolts.md")["topology"]) as cluster:
        for ms in (20, 1_200):
            cluster.produce("clicks", json.dumps({"user": 7, "page": "/", "ms": ms}))
        cluster.run_until_idle()
        assert cluster.executed("slow") == [(7, "/", 20), (7, "/", 1_200)]
        (record,) = cluster.records("slow-clicks")
        assert json.loads(record.value() or b"") == {"user": 7, "page": "/", "ms": 1_200}
        assert len(cluster.acked("clicks")) == 2


def test_a_locked_broker(tmp_path: Path) -> None:
    assert isinstance(names_of("docs/security.md")["locked"](tmp_path), LocalKafka)


def test_the_readme(monkeypatch: pytest.MonkeyPatch) -> None:
    (first,) = (block for block in blocks("README.md") if block.startswith("# shop.py"))
    (tests,) = (block for block in blocks("README.md") if block.startswith("# test_shop.py"))
    module = ModuleType("shop")
    monkeypatch.setitem(sys.modules, "shop", module)
    exec(first, module.__dict__)
    names: dict[str, Any] = {"__name__": "test_shop"}
    exec(tests, names)
    found = [value for name, value in names.items() if name.startswith("test_")]
    assert len(found) == 2
    for test in found:
        test()
    assert len([line for line in first.splitlines() if line.strip() and not line.startswith("#")]) <= 20
