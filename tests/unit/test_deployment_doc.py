"""The guide to running it names every metric, and none that is not there."""

import re
from pathlib import Path

from acker_cli import metrics_server
from acker_cli.settings import MetricsSection
from acker_worker.metrics import COUNTERS, PARTITION_GAUGES, SERVING, WORKER_GAUGES
from spout_sdk import metrics as components

DEPLOY = Path(__file__).parents[2] / "deploy"
GUIDE = (DEPLOY.parent / "docs" / "deployment.md").read_text()
ALERTS = (DEPLOY / "alerts.yml").read_text()

NAMES = {
    *(shown.name for shown in (*PARTITION_GAUGES, *WORKER_GAUGES, *COUNTERS)),
    *(shown.name for shown in (*components.GAUGES, *components.COUNTERS)),
    *(components.FAILED, components.USER, components.MAX_PENDING, components.LATENCY),
    *(components.EXECUTE_LATENCY, components.PROCESS_LATENCY),
    metrics_server.SILENCE,
    SERVING,
}


def test_every_metric_is_explained() -> None:
    table = GUIDE[GUIDE.index("| metric |") : GUIDE.index("### Alerts")]
    assert set(re.findall(r"\backer_[a-z_]+", table)) == NAMES


def test_alerts_name_metrics_that_are_there() -> None:
    named = set(re.findall(r"\backer_[a-z_]+", ALERTS))
    assert named
    assert named <= NAMES


def test_every_alert_is_explained_and_tested() -> None:
    alerts = re.findall(r"- alert: (\w+)$", ALERTS, re.MULTILINE)
    table = GUIDE[GUIDE.index("| alert |") : GUIDE.index("## Upgrading")]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == alerts
    tested = (DEPLOY / "alerts.test.yml").read_text()
    assert set(re.findall(r"alertname: (\w+)", tested)) == set(alerts)
    assert set(re.findall(r"\backer_[a-z_]+", tested)) <= NAMES


def test_prometheus_loads_the_alerts() -> None:
    assert "rule_files: [alerts.yml]" in (DEPLOY / "prometheus.yml").read_text()
    assert "./deploy/alerts.yml:/etc/prometheus/alerts.yml:ro" in (DEPLOY.parent / "docker-compose.yml").read_text()


def test_what_processes_are_quoted_with_is_what_they_say() -> None:
    failures = GUIDE[GUIDE.index("## When something goes wrong") : GUIDE.index("### Dead letters")]
    quoted = [*re.findall(r"\*([a-z][^*]+)\*", failures), "Retention is too short"]
    assert len(quoted) >= 5
    packages = ("tuple_tree", "acker_worker", "spout_sdk", "acker_cli")
    sources = "".join(path.read_text() for name in packages for path in (DEPLOY.parent / name).rglob("*.py"))
    said = re.sub(r'"\s+f?"', "", sources)
    for line in quoted:
        assert all(part.strip() in said for part in line.split("…")), line


def test_settings_and_their_defaults_are_told() -> None:
    for name, field in MetricsSection.model_fields.items():
        default = "none" if field.default is None else f"{field.default:g}" if name != "host" else f"`{field.default}`"
        assert f"| `metrics.{name}` | `ACKER_METRICS__{name.upper()}` | {default} |" in GUIDE
