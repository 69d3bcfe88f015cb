"""The Helm chart renders manifests that Kubernetes and KEDA accept, with the tools of `.ci/deploy-tools`."""

import json
import re
import subprocess
from typing import Any

import pytest
import yaml

from acker_cli.gateway.guard import HEALTH
from acker_cli.settings.sections import GatewaySection
from kafka_clients import supervision
from spout_sdk.api.topology import STOP_TIMEOUT
from tests.pages import ROOT
from tests.unit.cli.running import call_acker
from tests.unit.deploy_tools import TOOLS, installed_tool

CHART = ROOT / "deploy" / "helm" / "kafka-acker"
PAGE = (ROOT / "docs" / "deployment.md").read_text()
(EXAMPLE,) = re.findall(r"^```yaml\n# values\.yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
SCALED = {"name": "parse", "autoscaling": {"maxReplicas": 2}}
BROKERS = {"ACKER_KAFKA__BOOTSTRAP_SERVERS": "kafka:9092"}

pytestmark = pytest.mark.exhaustive


def helm(command: str, values: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    named = ["pipeline"] if command == "template" else ["--strict"]
    return installed_tool("helm", command, *named, str(CHART), "--values", "-", given=json.dumps(values))


def rendered(**changes: Any) -> dict[tuple[str, str], dict[str, Any]]:
    """The resources of the page's example by kind and name; each is valid."""
    values = yaml.safe_load(EXAMPLE) | changes
    lint, run = helm("lint", values), helm("template", values)
    assert lint.returncode == 0, lint.stdout
    assert run.returncode == 0, run.stderr
    schemas = TOOLS / "kubernetes-schemas" / "{{.ResourceKind}}.json"
    checked = installed_tool("kubeconform", "-strict", "-schema-location", str(schemas), given=run.stdout)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    return {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(run.stdout)}


def pod(resource: dict[str, Any]) -> dict[str, Any]:
    found = resource["spec"]["template"]["spec"]
    assert isinstance(found, dict)
    return found


def settings(resource: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: each["value"] for each in pod(resource)["containers"][0]["env"]}


def secrets(resource: dict[str, Any]) -> list[str]:
    return [each["secretRef"]["name"] for each in pod(resource)["containers"][0]["envFrom"]]


def checked(found: dict[tuple[str, str], dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    """The resources, whose commands, settings, selectors and ports fit each other."""
    for (kind, name), each in found.items():
        if kind in ("Deployment", "Job"):
            (container,) = pod(each)["containers"]
            assert call_acker(*container["args"], "--help").returncode == 0, name
            assert call_acker("config", "show", environment=settings(each)).returncode == 0, name
            assert pod(each)["terminationGracePeriodSeconds"] > supervision.STOP_SECONDS, name
        if kind == "Deployment":
            labels = each["spec"]["template"]["metadata"]["labels"]
            assert each["spec"]["selector"]["matchLabels"].items() <= labels.items(), name
        if kind == "Service":
            deployment, (served,) = found["Deployment", name], each["spec"]["ports"]
            (container,) = pod(deployment)["containers"]
            (port,) = container["ports"]
            assert each["spec"]["selector"].items() <= deployment["spec"]["template"]["metadata"]["labels"].items()
            assert (served["targetPort"], str(port["containerPort"]) in container["args"]) == (port["name"], True)
    return found


def test_the_example_of_the_page() -> None:
    found = checked(rendered())
    components = [each["name"] for each in yaml.safe_load(EXAMPLE)["components"]]
    deployments = {name for kind, name in found if kind == "Deployment"}
    assert deployments == {f"pipeline-{name}" for name in (*components, "acker", "acker-dashboard")}
    # The job runs before pods are changed, and its failure ends an upgrade.
    hook = found["Job", "pipeline-acker-topics"]["metadata"]["annotations"]["helm.sh/hook"]
    assert hook == "pre-install,pre-upgrade"
    assert not any("dashboard" in name for _, name in rendered(dashboard={"enabled": False}))


def test_the_dashboard_and_the_gateway_have_services_and_tokens() -> None:
    gateway = {"replicas": 2, "spout": "thermometers", "topic": "readings"}
    found = checked(rendered(dashboard={"names": "acker.example.com"}, gateway=gateway))
    dashboard, gate = (found["Deployment", f"pipeline-acker-{name}"] for name in ("dashboard", "gateway"))
    assert settings(dashboard)["ACKER_DASHBOARD__NAMES"] == "acker.example.com"
    assert (secrets(dashboard), secrets(gate)) == (["kafka", "acker-dashboard"], ["kafka", "acker-gateway"])
    assert {"pipeline", "--spout", "thermometers", "--topic", "readings"} <= set(pod(gate)["containers"][0]["args"])
    assert pod(gate)["containers"][0]["readinessProbe"]["httpGet"]["path"] == HEALTH
    assert pod(gate)["terminationGracePeriodSeconds"] > GatewaySection().stop_timeout_s + 10


def test_the_options_of_a_component() -> None:
    state = {"ACKER_STATE__DIRECTORY": "/tmp/states"}
    component = {"name": "Parse_it", "replicas": 3, "stopTimeout": 60, "settings": state, "secret": "parse"}
    pods = {"tolerations": [{"key": "spot", "operator": "Exists"}]}
    found = checked(rendered(components=[component], certificates="tls", pod=pods, workers={"replicas": 0}))
    deployment = found["Deployment", "pipeline-parse-it"]
    assert deployment["spec"]["replicas"] == 3
    assert pod(deployment)["containers"][0]["args"][-1] == "Parse_it"
    assert pod(deployment)["terminationGracePeriodSeconds"] > supervision.STOP_SECONDS + 60 - STOP_TIMEOUT
    assert settings(deployment).items() >= state.items()
    assert secrets(deployment) == ["parse"]
    assert pod(deployment)["tolerations"] == pods["tolerations"]
    assert {"name": "certificates", "secret": {"secretName": "tls"}} in pod(deployment)["volumes"]
    assert ("Deployment", "pipeline-acker") not in found


def test_keda_reads_the_lag_of_the_components_group() -> None:
    spout = {"topic": "readings", "maxReplicas": 2, "minReplicas": 0, "lagThreshold": 20_000_000}
    bolt = {"maxReplicas": 4, "excludePersistentLag": True}
    scaled = [{"name": "thermometers", "autoscaling": spout}, {"name": "parse", "autoscaling": bolt, "secret": "parse"}]
    found = checked(rendered(components=scaled, certificates="tls"))
    assert "replicas" not in found["Deployment", "pipeline-parse"]["spec"]
    of_spout, of_bolt = (found["ScaledObject", f"pipeline-{name}"]["spec"] for name in ("thermometers", "parse"))
    assert (of_spout["minReplicaCount"], of_spout["maxReplicaCount"]) == (0, 2)
    secured = {"sasl": "scram_sha512", "tls": "enable", "bootstrapServers": "kafka-1:9093,kafka-2:9093"}
    read = {"consumerGroup": "pipeline.thermometers", "topic": "readings", "lagThreshold": "20000000"}
    assert of_spout["triggers"][0]["metadata"] == secured | read
    read = {"consumerGroup": "pipeline.parse", "topic": "pipeline.tuples.parse", "excludePersistentLag": "true"}
    assert of_bolt["triggers"][0]["metadata"].items() >= read.items()
    authentication = found["TriggerAuthentication", "pipeline-parse"]["spec"]["secretTargetRef"]
    assert {each["parameter"]: each["name"] for each in authentication} == {
        "username": "parse",
        "password": "parse",
        "ca": "tls",
    }
    plain = rendered(components=scaled, settings=BROKERS)
    assert not any(kind == "TriggerAuthentication" for kind, _ in plain)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"image": ""}, "/image"),
        ({"imagge": "x"}, "imagge"),
        ({"settings": {}}, "ACKER_KAFKA__BOOTSTRAP_SERVERS"),
        ({"settings": BROKERS | {"ACKER_KAFKA__SASL_PASSWORD": "x"}}, "SASL_PASSWORD is a secret"),
        ({"settings": BROKERS | {"ACKER_DASHBOARD__TOKEN": "x"}}, "DASHBOARD__TOKEN is a secret"),
        ({"components": [SCALED | {"replicas": 2}]}, "/components/0"),
        ({"components": [{"name": "a_b"}, {"name": "A-B"}]}, "two components have the name pipeline-a-b"),
        ({"components": [{"name": "a" * 60}]}, "more than 63 characters"),
        ({"components": [SCALED], "topology": {"code": "pipeline:topology"}}, "topology.name"),
        ({"components": [SCALED], "secret": ""}, "ACKER_KAFKA__SASL_USERNAME"),
    ],
)
def test_wrong_values_are_an_error_with_the_reason(changes: dict[str, Any], reason: str) -> None:
    run = helm("template", yaml.safe_load(EXAMPLE) | changes)
    assert run.returncode != 0
    assert reason in run.stderr
