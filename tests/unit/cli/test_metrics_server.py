"""What is served: the pages, when health is lost, and what is said of a port that cannot be had."""

import json
import socket
import urllib.error
import urllib.request
from collections.abc import Mapping
from wsgiref.util import setup_testing_defaults

import pytest
from prometheus_client.parser import text_string_to_metric_families

from acker_cli.errors import SettingsError
from acker_cli.loops import Loop, why_stuck
from acker_cli.metrics_server import application, metrics_served
from acker_cli.settings import MetricsSection
from acker_worker.metrics import WorkerCollector
from acker_worker.stats import WorkerStats

STUCK_AFTER_S = 30.0


class Pages:
    """The pages without a server; the loop and its clock are the test's."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.loop = Loop("acker", lambda: self.now)
        self.stats = WorkerStats(records=3)
        self._application = application(
            [WorkerCollector(lambda: {"words": self.stats})], self.loop.silences, STUCK_AFTER_S
        )

    def get(self, path: str) -> tuple[str, str]:
        environ: dict[str, object] = {"PATH_INFO": path}
        setup_testing_defaults(environ)
        answered: list[str] = []
        body = b"".join(self._application(environ, lambda status, _headers: answered.append(status)))
        return answered[0], body.decode()

    def samples(self) -> Mapping[str, float]:
        families = text_string_to_metric_families(self.get("/metrics")[1])
        return {sample.name: sample.value for family in families for sample in family.samples}


def test_a_loop_that_does_not_turn_is_unhealthy_until_it_does() -> None:
    pages = Pages()
    assert pages.get("/health") == ("200 OK", '{"status": "ok"}\n')
    pages.now += STUCK_AFTER_S
    assert pages.get("/health")[0] == "200 OK"
    pages.now += 1
    status, said = pages.get("/health")
    assert status == "503 Service Unavailable"
    assert json.loads(said) == {"status": "stuck", "why": "the loop of acker has not turned for 31 s"}
    pages.loop.turned()
    assert pages.get("/health")[0] == "200 OK"
    assert why_stuck({"split": 31.4, "lines": 29.0, "acker": 100.0}, STUCK_AFTER_S) == (
        "the loop of acker has not turned for 100 s; the loop of split has not turned for 31 s"
    )
    assert why_stuck({}, STUCK_AFTER_S) == ""


def test_a_scrape_reads_the_latest_snapshot() -> None:
    pages = Pages()
    assert pages.samples()["acker_records_total"] == 3
    pages.stats = WorkerStats(records=4)
    pages.now += 7
    samples = pages.samples()
    assert (samples["acker_records_total"], samples["acker_loop_silence_seconds"]) == (4, 7)
    assert samples["process_resident_memory_bytes"] > 0
    status, said = pages.get("/")
    assert (status, json.loads(said)) == ("404 Not Found", {"pages": ["/metrics", "/health"]})


def test_port_0_takes_a_free_one_and_the_log_says_which(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"), metrics_served(MetricsSection(), [], dict):
        assert caplog.messages == [], "nothing listens unless a port is set"
    with caplog.at_level("INFO"), metrics_served(MetricsSection(port=0, host="localhost"), [], dict):
        (said,) = caplog.messages
        url = said.split()[2].removesuffix(",")
        assert url.startswith("http://localhost:")
        with urllib.request.urlopen(url) as answer:
            assert b"acker_loop_silence_seconds" in answer.read()
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(url)


def test_an_address_that_cannot_be_had_is_an_error_that_says_what_to_do() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
        for section, said in (
            (MetricsSection(port=port), f"at 127.0.0.1, port {port}: Address already in use"),
            (MetricsSection(port=0, host="192.0.2.1"), r"metrics cannot be served at 192\.0\.2\.1"),
        ):
            with pytest.raises(SettingsError, match=said) as raised, metrics_served(section, [], dict):
                raise AssertionError("it was served")
            assert "ACKER_METRICS__" in str(raised.value)
