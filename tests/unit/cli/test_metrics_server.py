"""When health is lost, and the error of a port that is in use."""

import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from acker_cli.processes.metrics_server import Health, Loop, application, metrics_served
from acker_cli.processes.own_figures import component_findings, worker_findings
from acker_cli.settings.sections import MetricsSection
from acker_worker.stats import WorkerStats
from inspection.errors import ServingError
from inspection.http_server import HttpServer, ServedAt
from spout_sdk.statistics import Stats
from tests.unit.cli.running import call_acker, one_line
from tests.unit.dashboard import http
from tests.unit.inspection.reports import manifest

STUCK_AFTER_SECONDS = 30.0


def test_a_stuck_or_stalled_loop_is_unhealthy(request: pytest.FixtureRequest) -> None:
    now = 1_000.0
    loops = {name: Loop(name, lambda: now) for name in ("split", "acker")}
    stats, worker = Stats("split", (1,), (0,)), WorkerStats()
    health = Health(
        lambda: {name: loop.heartbeat_ages()[name] for name, loop in loops.items()},
        lambda: [*component_findings(manifest(), [stats]), *worker_findings({"acker": ("words", worker)})],
    )
    pages = application([], health, MetricsSection(stuck_after_s=STUCK_AFTER_SECONDS))
    served = HttpServer(pages, ServedAt(), "metrics", 1)

    def get(path: str) -> tuple[int, Any]:
        answer = http.request(served.port, path)
        return answer.status, answer.json

    served.start()
    request.addfinalizer(served.close)
    assert get("/health") == (200, {"status": "ok"})
    now += STUCK_AFTER_SECONDS
    assert get("/health")[0] == 200
    now += 1
    loops["split"].turned()
    stuck = {"status": "stuck", "why": "the loop of acker has not turned for 31 s"}
    assert get("/health") == get("/live") == (503, stuck)
    loops["acker"].turned()
    worker.stalled_by, worker.stalled_ms = "notices are not acknowledged", 20_000
    assert get("/health")[0] == 200
    worker.stalled_ms = 21_000
    status, body = get("/health")
    why = "Acker worker acker has made no progress for 21 s: notices are not acknowledged."
    assert (status, body["status"], body["why"]) == (503, "stalled", why)
    assert [(each["check"], each["severity"]) for each in body["findings"]] == [("stalled", "problem")]
    assert get("/live")[0] == 200
    # A component is judged by the same model; without its service its calls raise.
    stats = replace(stats, paused_seconds=7.0, paused_by="task 0: ConnectionError: refused")
    worker.stalled_ms = 0
    assert get("/health")[1]["why"].startswith("All calls of bolt split raise, so it has paused for 7 s: task 0: Conn")
    stats = replace(stats, paused_seconds=0.0, execute_seconds=25.0, execute_at="words.tuples.split[0] offset 3")
    assert get("/health")[1]["findings"][0]["component"] == "split"
    assert get("/") == (404, {"pages": ["/metrics", "/health", "/live"]})


def test_an_unavailable_address_is_an_error_with_a_remedy() -> None:
    section, message = MetricsSection(port=0, host="192.0.2.1"), r"metrics cannot be served at 192\.0\.2\.1"
    with pytest.raises(ServingError, match=message) as raised, metrics_served(section, [], Health(dict)):
        raise AssertionError("it was served")
    assert "ACKER_METRICS__" in str(raised.value)


def test_a_port_in_use_is_reported_before_a_broker_starts(tmp_path: Path) -> None:
    """Without Java, the start of a broker would be another error."""
    without_java = {"PATH": str(tmp_path), "JAVA_HOME": ""}
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        served = f"cannot be served at 127.0.0.1, port {port}: Address already in use."
        for options, message, remedy in (
            (("--metrics-port", f"{port}"), f"the metrics {served}", "Each command needs a port of its own"),
            (("--dashboard", "--set", f"dashboard.port={port}"), f"the dashboard {served}", "--set dashboard.port=0"),
            (
                ("--set", f"local_kafka.port={port}"),
                f"Port {port} on 127.0.0.1 is already in use: ",
                "choose another port, or none for a free one (acker kafka --port, elsewhere --set local_kafka.port=",
            ),
        ):
            run = call_acker("run", "examples.word_count:topology", "--local", *options, environment=without_java)
            assert one_line(run).startswith(f"acker: {message}")
            assert remedy in run.stderr
