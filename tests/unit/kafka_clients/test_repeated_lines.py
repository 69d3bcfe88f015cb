"""Log lines that repeat: one of each kind a minute, from every module and client."""

import logging
import re
from collections.abc import Callable

import pytest

from kafka_clients.repeated_lines import EACH, MOST_KINDS, RepeatedLines, client_logger, forget, get_logger
from spout_sdk import BasicBolt, BasicCollector, TopologyBuilder, Tuple, declare
from spout_sdk.testing import SimulatedCluster
from tests.pages import ROOT

PARTS = ("acker_cli", "acker_worker", "inspection", "kafka_clients", "spark_jobs", "spout_sdk")
Log = Callable[..., str | None]


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def log(clock: Clock) -> Log:
    """Logs a warning, and returns the line that is passed, if any."""
    filter_ = RepeatedLines(clock=clock)

    def passed(text: str, *arguments: object, level: int = logging.WARNING) -> str | None:
        record = logging.LogRecord("some.client", level, "", 0, text, arguments, None)
        return record.getMessage() if filter_.filter(record) else None

    return passed


def test_a_line_is_logged_once_a_minute_with_the_count_of_what_was_left_out(clock: Clock, log: Log) -> None:
    text = "%s[%d]: the clock does not advance, %s"
    line = "words.acks[3]: the clock does not advance, Unknown partition"
    assert log(text, "words.acks", 3, "Unknown partition") == line
    for _ in range(47):
        assert log(text, "words.acks", 4, "Unknown partition") is None
    assert log(text, "orders.acks", 3, "Unknown partition") is not None
    assert log(text, "words.acks", 3, "Timed out") is not None
    clock.now = 59.9
    assert log(text, "words.acks", 3, "Unknown partition") is None
    clock.now = 60.0
    assert log(text, "words.acks", 5, "Unknown partition") == (
        "words.acks[5]: the clock does not advance, Unknown partition (48 more lines like it in the last 60 s)"
    )
    clock.now = 200.0
    assert log(text, "words.acks", 5, "Unknown partition") is not None


@pytest.mark.parametrize(
    ("first", "second", "alike"),
    [
        ("b-1:9092/1: Connection refused after 0ms", "b-1:9092/1: Connection refused after 3ms", True),
        ("b-1:9092/1: Connection refused", "b-2:9092/2: Connection refused", False),
        ("10.0.0.7:9092: timed out", "10.0.1.7:9092: timed out", False),
        ("ipv4#127.0.0.1:9092: timed out", "ipv4#127.0.0.1:9093: timed out", False),
        ("FAIL [rdkafka#producer-1] b-1: refused", "FAIL [rdkafka#producer-12] b-1: refused", True),
        ("2/3 brokers are down", "3/3 brokers are down", True),
        ("b-1: refused (after 0ms)", "b-1: refused (after 1ms, 12 identical error(s) suppressed)", True),
        ("orders[3] offset 17: invalid", "orders[0] offset 18: invalid", True),
        ("restarting in 0.2 s", "restarting in 10.0 s", True),
    ],
)
def test_lines_are_alike_that_differ_in_other_numbers_than_those_of_an_address(
    log: Log, first: str, second: str, alike: bool
) -> None:
    assert log("Kafka: %s", first) is not None
    assert (log("Kafka: %s", second) is None) == alike


def test_one_call_logs_so_many_lines_a_minute_however_they_differ(clock: Clock, log: Log) -> None:
    def letters(number: int) -> str:
        return chr(ord("a") + number // 26) + chr(ord("a") + number % 26)

    texts = [f"a message holds {letters(number)}" for number in range(300)]
    assert sum(log("dead letter: %s", text) is not None for text in texts) == MOST_KINDS + 1
    assert log("another call: %s", texts[0]) is not None
    clock.now = 60.0
    assert log("dead letter: %s", "a message holds zz") is not None


def test_only_warnings_and_errors_are_limited_no_losses_and_none_at_debug(
    log: Log, caplog: pytest.LogCaptureFixture
) -> None:
    assert [log("10 trees", level=logging.INFO) for _ in range(2)] == ["10 trees"] * 2
    assert [log("late") for _ in range(2)] == ["late", None]
    for _ in range(2):
        get_logger("another").warning("lost: offset 3", extra=EACH)
    assert len(caplog.records) == 2
    caplog.set_level(logging.DEBUG, "some.client")
    assert [log("late") for _ in range(2)] == ["late", "late"]


def test_errors_that_were_never_raised_are_alike_by_their_text(clock: Clock) -> None:
    filter_ = RepeatedLines(clock=clock)

    def passes(text: str) -> bool:
        error, line = ValueError(text), "%s reports an error: %s"
        info = (type(error), error, None)
        return filter_.filter(logging.LogRecord("a", logging.ERROR, "", 0, line, ("split", error), info))

    assert [passes(text) for text in ("no such table", "the disk is full", "the disk is full")] == [True, True, False]


def test_a_client_that_is_refused_its_id_is_logged_if_that_lasts(clock: Clock, log: Log) -> None:
    refused = (
        "GETPID [main]: Failed to acquire idempotence PID from broker b-1/1: Coordinator load in progress: retrying"
    )
    assert log(refused) is None
    clock.now = 9.0
    assert log(refused) is None
    clock.now = 10.0
    assert log(refused) == f"{refused} (2 more lines like it in the last 10 s)"


def test_lines_of_clients_are_limited_at_every_level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "some.client")
    for _ in range(3):
        client_logger("some").info("%s [%s] %s", "FAIL", "rdkafka#producer-1", "b-1:9092: refused")
    assert len(caplog.records) == 1
    forget()
    client_logger("some").info("%s [%s] %s", "FAIL", "rdkafka#producer-1", "b-1:9092: refused")
    assert len(caplog.records) == 2
    assert get_logger("some.client").filters == client_logger("some").filters


def test_each_simulated_cluster_logs_what_a_new_process_would(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(BasicBolt):
        def execute(self, _tuple: Tuple, _collector: BasicCollector) -> None:
            raise ValueError("a bad word")

    builder = TopologyBuilder("words")
    builder.set_spout("lines", "a-source", external=True, streams=[declare({"line": str})])
    builder.set_bolt("split", Broken).shuffle_grouping("lines")
    for number in (1, 2):
        with SimulatedCluster(builder.build(), sources={"lines": [("a",), ("b",)]}) as cluster:
            cluster.run_until(lambda: len(cluster.failed("lines")) == 2)
        assert caplog.text.count("split/0 raised ValueError: a bad word") == number


def test_no_module_has_a_logger_without_the_limit() -> None:
    found = {
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for part in PARTS
        for path in sorted((ROOT / part).rglob("*.py"))
        for line in path.read_text().splitlines()
        if re.search(r"logging\.getLogger\((?!\)|\"py4j)|logging\.(warning|error|exception)\(", line)
        and path.name != "repeated_lines.py"
    }
    assert found == set()
