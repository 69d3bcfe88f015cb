"""The commands and settings in the units of systemd and in the Helm chart exist.

`test_helm_chart.py` renders the chart.
"""

import re
import shlex

import pytest

from acker_cli.processes.metrics_server import HEALTH_PATH, LIVE_PATH
from acker_cli.settings.layers import is_secret
from kafka_clients import supervision
from tests.pages import ROOT
from tests.unit.cli.running import call_acker

UNITS = sorted((ROOT / "deploy" / "systemd").glob("*.service"))
CHART = ROOT / "deploy" / "helm" / "kafka-acker"
TEMPLATES = "".join(path.read_text() for path in sorted((CHART / "templates").iterdir()))


def test_the_commands_and_settings_exist() -> None:
    units = "".join(each.read_text() for each in UNITS)
    lines = re.findall(r"^ExecStart=/opt/acker/bin/acker (.*)$", units, re.MULTILINE)
    for arguments in re.findall(r"\$args := list (.*) -}}", TEMPLATES):
        lines.append(
            re.sub(r"\S*\.topology\.code|\$topology", "pipeline:topology", arguments).replace(" .name", " parse")
        )
    assert len(lines) == 7
    for line in lines:
        # Help is only given for a command line that is understood.
        run = call_acker(*shlex.split(line), "--help")
        assert run.returncode == 0, run.stderr
    named = set(re.findall(r"ACKER_\w+", TEMPLATES + (CHART / "values.yaml").read_text()))
    assert {"ACKER_METRICS__PORT", "ACKER_DASHBOARD__NAMES", "ACKER_KAFKA__SASL_PASSWORD"} <= named
    assert call_acker("config", "show", environment=dict.fromkeys(named, "9464")).returncode == 0


def test_stop_timeouts_exceed_the_supervisors() -> None:
    assert len(UNITS) == 2
    for each in UNITS:
        (seconds,) = re.findall(r"TimeoutStopSec=(\d+)", each.read_text())
        assert int(seconds) > supervision.STOP_SECONDS


def test_an_outage_of_kafka_restarts_no_pod() -> None:
    """It makes `/health` answer 503 in all of them, and `/live` in none."""
    probes = dict(re.findall(r"^(\w+Probe): \{httpGet: \{path: (\S+), port: metrics\}", TEMPLATES, re.MULTILINE))
    assert probes == {"startupProbe": LIVE_PATH, "livenessProbe": LIVE_PATH, "readinessProbe": HEALTH_PATH}


@pytest.mark.parametrize(
    "name",
    [
        *("kafka.sasl.password", "kafka.ssl.key.password", "kafka.ssl.key.pem", "kafka.ssl.keystore.key"),
        *("kafka.sasl.jaas.config", "kafka.sasl.oauthbearer.config", "kafka.sasl.oauthbearer.client.secret"),
        *("kafka.sasl.oauthbearer.assertion.private.key.file", "kafka.ssl.pin", "dashboard.token"),
        *("kafka.bootstrap.servers", "kafka.sasl.username", "kafka.ssl.key.location", "metrics.port"),
        *("kafka.ssl.certificate.pem", "kafka.ssl.keystore.location", "kafka.sasl.oauthbearer.scope"),
    ],
)
def test_the_chart_knows_the_names_of_secrets(name: str) -> None:
    (pattern,) = re.findall(r'regexMatch "(.*)" \$name', TEMPLATES)
    assert (re.search(pattern, name.replace(".", "_").upper()) is not None) == is_secret(name)
