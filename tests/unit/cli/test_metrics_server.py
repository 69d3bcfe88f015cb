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


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


class Pages:
    """The pages without a server; the loop and its clock are the test's."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.loop = Loop("acker", self.clock)
        self.stats = WorkerStats(records=3)
        self._application = application(
            [WorkerCollector(lambda: {"words": self.stats})], self.loop.silences, STUCK_AFTER_S
        )

    def get(self, path: str) -> tuple[str, str]:
        environ: dict[str, object] = {"PATH_INFO": path}
        setup_testing_defaults(environ)
        answered: list[str] = []

        def start_response(status: str, headers: list[tuple[str, str]]) -> None:
            answered.append(status)

        body = b"".join(self._application(environ, start_response))
        return answered[0], body.decode()

    def samples(self) -> Mapping[str, float]:
        text = self.get("/metrics")[1]
        return {
            sample.name: sample.value for family in text_string_to_metric_families(text) for sample in family.samples
        }


def test_a_loop_that_does_not_turn_is_unhealthy_until_it_does() -> None:
    pages = Pages()
    assert pages.get("/health") == ("200 OK", '{"status": "ok"}\n')
    pages.clock.now += STUCK_AFTER_S
    assert pages.get("/health")[0] == "200 OK"
    pages.clock.now += 1
    status, said = pages.get("/health")
    assert status == "503 Service Unavailable"
    assert json.loads(said) == {"status": "stuck", "why": "the loop of acker has not turned for 31 s"}
    pages.loop.turned()
    assert pages.get("/health")[0] == "200 OK"


def test_every_stuck_loop_is_named() -> None:
    silences = {"split": 31.4, "lines": 29.0, "acker": 100.0}
    assert why_stuck(silences, STUCK_AFTER_S) == (
        "the loop of acker has not turned for 100 s; the loop of split has not turned for 31 s"
    )
    assert why_stuck({}, STUCK_AFTER_S) == ""


def test_a_scrape_reads_the_latest_snapshot() -> None:
    pages = Pages()
    assert pages.samples()["acker_records_total"] == 3
    pages.stats = WorkerStats(records=4)
    pages.clock.now += 7
    samples = pages.samples()
    assert samples["acker_records_total"] == 4
    assert samples["acker_loop_silence_seconds"] == 7
    assert samples["process_resident_memory_bytes"] > 0


def test_other_pages_are_not_there_and_say_which_are() -> None:
    status, said = Pages().get("/")
    assert status == "404 Not Found"
    assert json.loads(said) == {"pages": ["/metrics", "/health"]}


def test_nothing_listens_unless_a_port_is_set(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"), metrics_served(MetricsSection(), [], dict):
        assert caplog.messages == []


@pytest.mark.parametrize(("host", "in_url"), [("127.0.0.1", "127.0.0.1"), ("localhost", "localhost")])
def test_port_0_takes_a_free_one_and_the_log_says_which(
    host: str, in_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO"), metrics_served(MetricsSection(port=0, host=host), [], dict):
        (said,) = caplog.messages
        url = said.split()[2].removesuffix(",")
        assert url.startswith(f"http://{in_url}:")
        with urllib.request.urlopen(url) as answer:
            assert b"acker_loop_silence_seconds" in answer.read()
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(url)


def test_a_taken_port_is_an_error_that_says_what_to_do() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with (
            pytest.raises(SettingsError, match=f"at 127.0.0.1, port {port}: Address already in use") as raised,
            metrics_served(MetricsSection(port=port), [], dict),
        ):
            raise AssertionError("it was served")
    assert "--metrics-port, ACKER_METRICS__PORT" in str(raised.value)


def test_an_address_of_another_machine_is_an_error() -> None:
    with (
        pytest.raises(SettingsError, match=r"metrics cannot be served at 192\.0\.2\.1"),
        metrics_served(MetricsSection(port=0, host="192.0.2.1"), [], dict),
    ):
        raise AssertionError("it was served")
