"""The commands and settings in the units of systemd and the manifests of Kubernetes exist."""

import re

from kafka_clients import supervision
from tests.pages import ROOT
from tests.unit.cli.running import call_acker

DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))


def test_the_commands_exist() -> None:
    units, manifests = ("".join(each.read_text() for each in files) for files in (UNITS, MANIFESTS))
    lines = re.findall(r"^ExecStart=/opt/acker/bin/acker (.*)$", units, re.MULTILINE)
    lines += re.findall(r"args: \[(.*)\]$", manifests, re.MULTILINE)
    assert len(lines) == 5
    for line in lines:
        # Help is only given for a command line that is understood.
        run = call_acker(*(word.strip('",') for word in line.split()), "--help")
        assert run.returncode == 0, run.stderr
    assert call_acker("worker", "--no-such-option", "--help").returncode == 2


def test_the_settings_exist() -> None:
    literals = re.findall(
        r"^ +- (ACKER_\w+)=(.*)$", (DEPLOY / "kubernetes" / "kustomization.yaml").read_text(), re.MULTILINE
    )
    assert len(literals) == 4
    assert call_acker("config", "show", environment=dict(literals)).returncode == 0
    assert call_acker("config", "show", environment={"ACKER_METRICS__NO_SUCH": "1"}).returncode == 1


def test_stop_timeouts_exceed_the_supervisors() -> None:
    bounds = [*UNITS, *(each for each in MANIFESTS if "kind: Deployment" in each.read_text())]
    assert len(bounds) == 4
    for each in bounds:
        (seconds,) = re.findall(r"(?:TimeoutStopSec=|terminationGracePeriodSeconds: )(\d+)", each.read_text())
        assert int(seconds) > supervision.STOP_SECONDS
