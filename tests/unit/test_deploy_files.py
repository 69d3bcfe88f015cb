"""The commands and settings in the units of systemd and the manifests of Kubernetes exist."""

import re
from typing import Any

import yaml

from acker_cli.processes.metrics_server import HEALTH_PATH, LIVE_PATH
from inspection.dashboard.server import SHORTEST_TOKEN
from kafka_clients import supervision
from tests.pages import ROOT
from tests.unit.cli.running import call_acker

DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
KUSTOMIZATION = DEPLOY / "kubernetes" / "kustomization.yaml"


def resources(kind: str) -> dict[str, Any]:
    """The resources of Kubernetes of a kind, by their names."""
    found = [each for path in MANIFESTS if path != KUSTOMIZATION for each in yaml.safe_load_all(path.read_text())]
    return {each["metadata"]["name"]: each["spec"] for each in found if each["kind"] == kind}


def container(deployment: dict[str, Any]) -> dict[str, Any]:
    (found,) = deployment["template"]["spec"]["containers"]
    assert isinstance(found, dict)
    return found


def test_the_commands_exist() -> None:
    units, manifests = ("".join(each.read_text() for each in files) for files in (UNITS, MANIFESTS))
    lines = re.findall(r"^ExecStart=/opt/acker/bin/acker (.*)$", units, re.MULTILINE)
    lines += re.findall(r"args: \[(.*)\]$", manifests, re.MULTILINE)
    assert len(lines) == 6
    for line in lines:
        # Help is only given for a command line that is understood.
        run = call_acker(*(word.strip('",') for word in line.split()), "--help")
        assert run.returncode == 0, run.stderr
    assert call_acker("worker", "--no-such-option", "--help").returncode == 2


def test_the_settings_exist() -> None:
    literals = re.findall(r"^ +- (ACKER_\w+)=(.*)$", KUSTOMIZATION.read_text(), re.MULTILINE)
    assert len(literals) == 4
    assert call_acker("config", "show", environment=dict(literals)).returncode == 0
    assert call_acker("config", "show", environment={"ACKER_METRICS__NO_SUCH": "1"}).returncode == 1


def test_stop_timeouts_exceed_the_supervisors() -> None:
    bounds = [*UNITS, *(each for each in MANIFESTS if "kind: Deployment" in each.read_text())]
    assert len(bounds) == 5
    for each in bounds:
        (seconds,) = re.findall(r"(?:TimeoutStopSec=|terminationGracePeriodSeconds: )(\d+)", each.read_text())
        assert int(seconds) > supervision.STOP_SECONDS


def test_the_kustomization_has_all_manifests() -> None:
    listed = yaml.safe_load(KUSTOMIZATION.read_text())["resources"]
    assert sorted(listed) == [path.name for path in MANIFESTS if path != KUSTOMIZATION]


def test_an_outage_of_kafka_restarts_no_pod() -> None:
    """It makes `/health` answer 503 in all of them, and `/live` in none."""
    deployments = resources("Deployment")
    assert set(deployments) == {"worker", "parse", "dashboard"}
    for name in ("worker", "parse"):
        of = container(deployments[name])
        assert of["startupProbe"]["httpGet"] == of["livenessProbe"]["httpGet"] == {"path": LIVE_PATH, "port": "metrics"}
        assert of["readinessProbe"]["httpGet"] == {"path": HEALTH_PATH, "port": "metrics"}
        assert {"name": "metrics", "containerPort": 9464} in of["ports"]


def test_the_dashboard_has_a_service_a_token_and_probes() -> None:
    deployment, service = resources("Deployment")["dashboard"], resources("Service")["dashboard"]
    of = container(deployment)
    assert service["selector"].items() <= deployment["template"]["metadata"]["labels"].items()
    (served,), (port,) = service["ports"], of["ports"]
    assert (served["targetPort"], str(port["containerPort"])) == (port["name"], of["args"][-1])

    environment = {each["name"]: each for each in of["env"]}
    assert environment.pop("ACKER_DASHBOARD__TOKEN")["valueFrom"]["secretKeyRef"]["key"] == "token"
    settings = {name: each["value"] for name, each in environment.items()}
    assert call_acker("config", "show", environment=settings).returncode == 0
    (size,) = re.findall(r"openssl rand -hex (\d+)", (DEPLOY / "kubernetes" / "dashboard.yaml").read_text())
    assert 2 * int(size) >= SHORTEST_TOKEN

    # The same check as in compose: it asks for a token, so an answer is all that a probe can see.
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]["dashboard"]
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert ["CMD", *of[probe]["exec"]["command"]] == compose["healthcheck"]["test"]
