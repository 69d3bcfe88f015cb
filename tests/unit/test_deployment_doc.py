"""The guide to running it names every metric, and none that is not there."""

import re
from pathlib import Path

from acker_cli import metrics_server
from acker_cli.settings import MetricsSection
from acker_worker.metrics import COUNTERS, PARTITION_GAUGES, SERVING, WORKER_GAUGES
from spout_sdk import metrics as components

GUIDE = (Path(__file__).parents[2] / "docs" / "deployment.md").read_text()

NAMES = {
    *(shown.name for shown in (*PARTITION_GAUGES, *WORKER_GAUGES, *COUNTERS)),
    *(shown.name for shown in (*components.GAUGES, *components.COUNTERS)),
    *(components.FAILED, components.USER, components.MAX_PENDING, components.LATENCY),
    metrics_server.SILENCE,
    SERVING,
}


def test_every_metric_is_explained() -> None:
    table = GUIDE[GUIDE.index("| metric |") : GUIDE.index("### Alerts")]
    assert set(re.findall(r"\backer_[a-z_]+", table)) == NAMES


def test_alerts_name_metrics_that_are_there() -> None:
    alerts = GUIDE[GUIDE.index("```yaml") : GUIDE.index("## Upgrading")]
    named = set(re.findall(r"\backer_[a-z_]+", alerts))
    assert named
    assert named <= NAMES


def test_settings_and_their_defaults_are_told() -> None:
    for name, field in MetricsSection.model_fields.items():
        default = "none" if field.default is None else f"{field.default:g}" if name != "host" else f"`{field.default}`"
        assert f"| `metrics.{name}` | `ACKER_METRICS__{name.upper()}` | {default} |" in GUIDE
