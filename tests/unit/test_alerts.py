"""The alerts name metrics of the code and have runbooks; messages that the troubleshooting quotes are in the code."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from acker_cli.processes import metrics_server
from acker_worker.metrics import METRIC_NAMES
from spout_sdk.statistics import metrics as components
from tests.pages import ROOT

DEPLOY = ROOT / "deploy"
ALERTS = (DEPLOY / "alerts.yml").read_text()

NAMES = {*METRIC_NAMES, *components.METRIC_NAMES, metrics_server.HEARTBEAT_AGE}


def test_every_alert_has_a_severity_and_a_runbook_and_is_tested() -> None:
    (group,) = yaml.safe_load(ALERTS)["groups"]
    rules: dict[str, Any] = {rule["alert"]: rule for rule in group["rules"]}
    runbooks = (ROOT / "docs" / "alerts.md").read_text()
    assert re.findall(r"^## (\w+)$", runbooks, re.MULTILINE) == list(rules)
    for name, rule in rules.items():
        assert rule["labels"]["severity"] in ("critical", "warning"), name
        assert rule["annotations"]["runbook"] == f"docs/alerts.md#{name.lower()}"
    tested = (DEPLOY / "alerts.test.yml").read_text()
    cases = [case for test in yaml.safe_load(tested)["tests"] for case in test["alert_rule_test"]]
    assert {case["alertname"] for case in cases if case["exp_alerts"]} == rules.keys()
    assert set(re.findall(r"\backer_[a-z_]+", ALERTS + tested)) <= NAMES


@pytest.mark.exhaustive
def test_the_alerts_fire_when_they_should() -> None:
    """With the promtool that `.ci/promtool` installs."""
    promtool = shutil.which("promtool", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert promtool, "no promtool: run .ci/promtool"
    for arguments in (("check", "rules", "alerts.yml"), ("test", "rules", "alerts.test.yml")):
        run = subprocess.run([promtool, *arguments], cwd=DEPLOY, capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stdout + run.stderr


def test_the_quoted_messages_are_in_the_code() -> None:
    guide, alerts = ((ROOT / "docs" / name).read_text() for name in ("troubleshooting.md", "alerts.md"))
    failures = guide[guide.index("## Kafka, processes and topics") :]
    quoted = re.findall(r"\*([a-z][^*]+)\*", failures) + re.findall(r"^\| \*(?:TOPIC\[N\] )?([^*]+)\* \|", alerts, re.M)
    assert len(quoted) >= 10
    packages = ("tuple_tree", "kafka_clients", "acker_worker", "spout_sdk", "acker_cli")
    sources = "".join(path.read_text() for name in packages for path in (ROOT / name).rglob("*.py"))
    text = re.sub(r'"\s+f?"', "", sources)
    assert [line for line in quoted if not all(part.strip() in text for part in line.split("…"))] == []
