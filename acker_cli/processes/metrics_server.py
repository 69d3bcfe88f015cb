"""`/metrics`, `/health` and `/live` of a command, over HTTP, in threads of their own: also while a loop is stuck."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from acker_cli.settings.sections import MetricsSection
from inspection.health.findings import Finding
from kafka_clients.repeated_lines import get_logger

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request

logger = get_logger(__name__)

METRICS_PATH: Final = "/metrics"
HEALTH_PATH: Final = "/health"
"""Whether the loops turn, and work is done where there is some."""
LIVE_PATH: Final = "/live"
"""Whether the loops turn: if not, an end and a new start help."""
HEARTBEAT_AGE: Final = "acker_loop_heartbeat_age_seconds"
"""Seconds since a loop turned last, by `loop`: `acker`, or a component's name."""

_NAME: Final = "metrics"
_GRACE_SECONDS: Final = 1


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
        """May be called from any thread."""
        return {self._name: self._clock() - self._turned_at}


def application(collectors: Iterable[Collector], health: Health, section: MetricsSection) -> "Starlette":
    """`/metrics` has the collectors, the loops and this process.

    Pages are made in threads of their own, so that one that waits for a lock holds up no other.
    """
    from starlette.applications import Starlette
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route

    registry = CollectorRegistry()
    for collector in (*collectors, health):
        registry.register(collector)
    ProcessCollector(registry=registry)

    def metrics(request: "Request") -> Response:
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(registry), headers={"content-type": content_type})

    def judged(request: "Request") -> Response:
        stuck = health.why_stuck(section.stuck_after_s)
        findings = health.findings() if request.url.path == HEALTH_PATH and not stuck else ()
        why = stuck or "; ".join(each.found for each in findings)
        if not why:
            return JSONResponse({"status": "ok"})
        body: dict[str, Any] = {"status": "stuck" if stuck else "stalled", "why": why}
        if findings:
            body["findings"] = [asdict(each) for each in findings]
        return JSONResponse(body, 503)

    def unknown(_request: "Request", _error: Exception) -> Response:
        return JSONResponse({"pages": [METRICS_PATH, HEALTH_PATH, LIVE_PATH]}, 404)

    routes = [Route(METRICS_PATH, metrics), Route(HEALTH_PATH, judged), Route(LIVE_PATH, judged)]
    return Starlette(routes=routes, exception_handlers={404: unknown})


@contextmanager
def metrics_served(section: MetricsSection, collectors: Iterable[Collector], health: Health) -> Iterator[None]:
    """Serves the pages inside the block, if a port is set; raises `ServingError` if it cannot be used."""
    if section.port is None:
        yield
        return
    from inspection.http_server import HttpServer, ServedAt

    app = application(collectors, health, section)
    with HttpServer(app, ServedAt(section.host, section.port), _NAME, _GRACE_SECONDS) as server:
        logger.info("metrics at %s%s, health at %s", server.origin, METRICS_PATH, HEALTH_PATH)
        yield


def check_port(section: MetricsSection) -> None:
    """Raises `ServingError` if the port is in use, before anything else is started."""
    if section.port is not None:
        from inspection.http_server import listening_at

        listening_at(section.host, section.port, _NAME).close()
