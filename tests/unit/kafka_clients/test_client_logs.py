"""Repeated log lines of a client."""

import logging

from kafka_clients.client_settings import RepeatedLines


def test_a_repeated_log_line_is_logged_every_ten_seconds_with_its_count() -> None:
    now = 0.0
    filter_ = RepeatedLines(lambda: now)

    def passed(line: str) -> str | None:
        record = logging.LogRecord("client", logging.ERROR, "", 0, "%s", (line,), None)
        return record.getMessage() if filter_.filter(record) else None

    assert passed("b-1:9092/1: Connection refused after 0ms") == "b-1:9092/1: Connection refused after 0ms"
    assert passed("b-1:9092/1: Connection refused after 3ms") is None
    assert passed("b-1:9092/1: timed out") == "b-1:9092/1: timed out"
    now = 9.0
    assert passed("b-1:9092/1: Connection refused after 0ms") is None
    now = 10.0
    assert passed("b-1:9092/1: Connection refused after 1ms") == (
        "b-1:9092/1: Connection refused after 1ms (2 more lines like it in the last 10 s)"
    )
    refused = (
        "GETPID [main]: Failed to acquire idempotence PID from broker b-1/1: Coordinator load in progress: retrying"
    )
    assert passed(refused) is None
    now = 19.0
    assert passed(refused) is None
    now = 30.0
    assert passed(refused) == f"{refused} (2 more lines like it in the last 20 s)"
    assert passed("b-1:9092/1: Connection refused after 0ms") == "b-1:9092/1: Connection refused after 0ms"
