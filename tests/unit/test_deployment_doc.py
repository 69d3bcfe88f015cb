"""The guide to running it names every metric, alert and setting, and none that is not there."""

import re

from acker_cli import metrics_server
from acker_cli.settings import MetricsSection
from acker_worker.metrics import COUNTERS, PARTITION_GAUGES, SERVING, WORKER_GAUGES
from spout_sdk import metrics as components
from tests.pages import ROOT

DEPLOY = ROOT / "deploy"
GUIDE = (ROOT / "docs" / "deployment.md").read_text()
ALERTS = (DEPLOY / "alerts.yml").read_text()

NAMES = {
    *(shown.name for shown in (*PARTITION_GAUGES, *WORKER_GAUGES, *COUNTERS)),
    *(shown.name for shown in (*components.GAUGES, *components.COUNTERS)),
    *(components.FAILED, components.USER, components.MAX_PENDING, components.LATENCY),
    *(components.EXECUTE_LATENCY, components.PROCESS_LATENCY),
    metrics_server.SILENCE,
    SERVING,
}


def test_every_metric_and_every_setting_is_explained() -> None:
    table = GUIDE[GUIDE.index("| metric |") : GUIDE.index("### Alerts")]
    assert set(re.findall(r"\backer_[a-z_]+", table)) == NAMES
    for name, field in MetricsSection.model_fields.items():
        default = "none" if field.default is None else f"{field.default:g}" if name != "host" else f"`{field.default}`"
        assert f"| `metrics.{name}` | `ACKER_METRICS__{name.upper()}` | {default} |" in GUIDE


def test_every_alert_names_metrics_and_is_explained_and_tested() -> None:
    alerts = re.findall(r"- alert: (\w+)$", ALERTS, re.MULTILINE)
    table = GUIDE[GUIDE.index("| alert |") : GUIDE.index("## Upgrading")]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == alerts
    tested = (DEPLOY / "alerts.test.yml").read_text()
    assert set(re.findall(r"alertname: (\w+)", tested)) == set(alerts)
    assert set() < set(re.findall(r"\backer_[a-z_]+", ALERTS + tested)) <= NAMES
    assert "rule_files: [alerts.yml]" in (DEPLOY / "prometheus.yml").read_text()
    assert "./deploy/alerts.yml:/etc/prometheus/alerts.yml:ro" in (ROOT / "docker-compose.yml").read_text()


def test_the_messages_that_it_quotes_are_in_the_code() -> None:
    guide = (ROOT / "docs" / "troubleshooting.md").read_text()
    failures = guide[guide.index("## Kafka, processes and topics") : guide.index("## Dead letters")]
    quoted = [*re.findall(r"\*([a-z][^*]+)\*", failures), "Retention is too short"]
    assert len(quoted) >= 5
    packages = ("tuple_tree", "acker_worker", "spout_sdk", "acker_cli")
    sources = "".join(path.read_text() for name in packages for path in (ROOT / name).rglob("*.py"))
    said = re.sub(r'"\s+f?"', "", sources)
    for line in quoted:
        assert all(part.strip() in said for part in line.split("…")), line
