"""`/metrics`, `/health` and `/live` of a command, over HTTP, in threads of their own: also while a loop is stuck."""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from http import HTTPStatus
from socketserver import TCPServer
from typing import Any, Final
from wsgiref.simple_server import WSGIRequestHandler

from prometheus_client import CollectorRegistry, ProcessCollector, make_wsgi_app
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import ThreadingWSGIServer
from prometheus_client.registry import Collector

from acker_cli.errors import SettingsError
from acker_cli.settings.sections import MetricsSection
from inspection.health.findings import Finding
from kafka_clients.repeated_lines import get_logger

logger = get_logger(__name__)

METRICS_PATH: Final = "/metrics"
HEALTH_PATH: Final = "/health"
"""Whether the loops turn, and work is done where there is some."""
LIVE_PATH: Final = "/live"
"""Whether the loops turn: if not, an end and a new start help."""
HEARTBEAT_AGE: Final = "acker_loop_heartbeat_age_seconds"
"""Seconds since a loop turned last, by `loop`: `acker`, or a component's name."""

_REQUEST_SECONDS: Final = 10.0
"""How long a client may take over its request."""

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
"""A WSGI application."""


@dataclass(frozen=True)
class Health(Collector):
    """The loops of a command, by name."""

    heartbeat_ages: Callable[[], Mapping[str, float]]  # seconds since each turned last
    findings: Callable[[], Sequence[Finding]] = tuple  # of its processes on themselves

    def why_stuck(self, stuck_after_s: float) -> str:
        return "; ".join(
            f"the loop of {name} has not turned for {age:.0f} s"
            for name, age in sorted(self.heartbeat_ages().items())
            if age > stuck_after_s
        )

    def collect(self) -> Iterator[Metric]:
        family = GaugeMetricFamily(HEARTBEAT_AGE, "Seconds since the loop turned last.", labels=["loop"])
        for name, age in self.heartbeat_ages().items():
            family.add_metric([name], age)
        yield family


class Loop:
    """The loop of this process, by its name: `ACKER_LOOP`, or a component's."""

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._name = name
        self._clock = clock
        self.turned()  # it has as long for its first turn as for any other

    def turned(self) -> None:
        self._turned_at = self._clock()

    def heartbeat_ages(self) -> dict[str, float]:
        """From any thread."""
        return {self._name: self._clock() - self._turned_at}


def application(collectors: Iterable[Collector], health: Health, section: MetricsSection) -> Application:
    """`/metrics` has the collectors, the loops and this process."""
    registry = CollectorRegistry()
    for collector in (*collectors, health):
        registry.register(collector)
    ProcessCollector(registry=registry)
    metrics: Application = make_wsgi_app(registry)

    def respond(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path == METRICS_PATH:
            return metrics(environ, start_response)
        if path in (HEALTH_PATH, LIVE_PATH):
            stuck = health.why_stuck(section.stuck_after_s)
            findings = health.findings() if path == HEALTH_PATH and not stuck else ()
            why = stuck or "; ".join(each.found for each in findings)
            status = HTTPStatus.SERVICE_UNAVAILABLE if why else HTTPStatus.OK
            body: dict[str, Any] = {"status": "stuck" if stuck else "stalled", "why": why} if why else {"status": "ok"}
            if findings:
                body["findings"] = [asdict(each) for each in findings]
        else:
            status, body = HTTPStatus.NOT_FOUND, {"pages": [METRICS_PATH, HEALTH_PATH, LIVE_PATH]}
        start_response(f"{status.value} {status.phrase}", [("Content-Type", "application/json")])
        return [json.dumps(body).encode() + b"\n"]

    return respond


@contextmanager
def metrics_served(section: MetricsSection, collectors: Iterable[Collector], health: Health) -> Iterator[None]:
    """Serves the pages inside the block, if a port is set."""
    if section.port is None:
        yield
        return
    server = _listening(section.host, section.port)
    server.set_app(application(collectors, health, section))
    thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
    thread.start()
    host = f"[{section.host}]" if ":" in section.host else section.host
    logger.info("metrics at http://%s:%d%s, health at %s", host, server.server_port, METRICS_PATH, HEALTH_PATH)
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def check_port(section: MetricsSection) -> None:
    """An error if the port is in use, before anything else is started."""
    if section.port is not None:
        _listening(section.host, section.port).server_close()


class _Server(ThreadingWSGIServer):
    def __init__(self, host: str, port: int) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), _Quiet)

    def server_bind(self) -> None:
        # Not that of HTTPServer, which asks the name service for a name that is not needed.
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()


class _Quiet(WSGIRequestHandler):
    timeout = _REQUEST_SECONDS

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - so it is called
        """Logs no requests: they come every few seconds."""


def _listening(host: str, port: int) -> _Server:
    try:
        return _Server(host, port)
    except OSError as error:
        raise SettingsError(
            f"metrics cannot be served at {host}, port {port}: {error.strerror or error}. Each command needs a port of "
            "its own: set it with --metrics-port, ACKER_METRICS__PORT, or port under [metrics] in acker.toml (0 takes "
            "a free one), and the address with metrics.host"
        ) from error
