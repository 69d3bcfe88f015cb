"""When health is lost, and the error of a port that is in use."""

import json
import socket
from pathlib import Path
from wsgiref.util import setup_testing_defaults

import pytest

from acker_cli.errors import SettingsError
from acker_cli.processes.metrics_server import Health, Loop, application, metrics_served
from acker_cli.settings.sections import MetricsSection
from tests.unit.cli.running import call_acker, one_line

STUCK_AFTER_SECONDS = 30.0


def test_a_stuck_or_stalled_loop_is_unhealthy() -> None:
    now = 1_000.0
    loops = {name: Loop(name, lambda: now) for name in ("split", "acker")}
    stalls = {"split": (0.0, ""), "acker": (0.0, "")}
    health = Health(lambda: {name: loop.heartbeat_ages()[name] for name, loop in loops.items()}, lambda: stalls)
    pages = application([], health, MetricsSection(stuck_after_s=STUCK_AFTER_SECONDS, stalled_after_s=60))

    def get(path: str) -> tuple[str, object]:
        environ: dict[str, object] = {"PATH_INFO": path}
        setup_testing_defaults(environ)
        answered: list[str] = []
        body = b"".join(pages(environ, lambda status, _headers: answered.append(status)))
        return answered[0], json.loads(body)

    assert get("/health") == ("200 OK", {"status": "ok"})
    now += STUCK_AFTER_SECONDS
    assert get("/health")[0] == "200 OK"
    now += 1
    loops["split"].turned()
    stuck = {"status": "stuck", "why": "the loop of acker has not turned for 31 s"}
    assert get("/health") == get("/live") == ("503 Service Unavailable", stuck)
    loops["acker"].turned()
    stalls["acker"] = (60.0, "notices are not acknowledged")
    assert get("/health")[0] == "200 OK"
    stalls["acker"] = (61.0, "notices are not acknowledged")
    why = "acker has made no progress for 61 s: notices are not acknowledged"
    assert get("/health") == ("503 Service Unavailable", {"status": "stalled", "why": why})
    assert get("/live")[0] == "200 OK"
    assert get("/") == ("404 Not Found", {"pages": ["/metrics", "/health", "/live"]})


def test_an_unavailable_address_is_an_error_with_a_remedy() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
        for section, message in (
            (MetricsSection(port=port), f"at 127.0.0.1, port {port}: Address already in use"),
            (MetricsSection(port=0, host="192.0.2.1"), r"metrics cannot be served at 192\.0\.2\.1"),
        ):
            with pytest.raises(SettingsError, match=message) as raised, metrics_served(section, [], Health(dict)):
                raise AssertionError("it was served")
            assert "ACKER_METRICS__" in str(raised.value)


def test_a_port_in_use_is_reported_before_a_broker_starts(tmp_path: Path) -> None:
    """Without Java, the start of a broker would be another error."""
    without_java = {"PATH": str(tmp_path), "JAVA_HOME": ""}
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        served = f"cannot be served at 127.0.0.1, port {port}: Address already in use."
        for options, message, remedy in (
            (("--metrics-port", f"{port}"), f"metrics {served}", "Each command needs a port of its own"),
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
