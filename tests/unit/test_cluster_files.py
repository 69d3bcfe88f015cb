"""The files of the cluster in containers, without an engine: variables, ports, bounds, jars, metrics."""

import hashlib
import json
import re
from pathlib import Path

import pytest

from deploy.fetch_jars import default_repository, fetch, listed
from kafka_clients import supervision
from local_kafka.distribution import KAFKA_VERSION
from spark_jobs import submit
from spark_jobs.packages import packages
from tests.broker_container import IMAGE
from tests.pages import ROOT
from tests.unit.test_alerts import NAMES

_COMPOSE = (ROOT / "docker-compose.yml").read_text()


def test_every_variable_has_one_default_which_the_example_names() -> None:
    used = re.findall(r"\$\{([A-Z0-9_]+):-([^}]*)\}", _COMPOSE)
    assert len(used) == _COMPOSE.count("${")
    assert len(dict(used)) == len(set(used))
    rows = (ROOT / ".env.example").read_text().splitlines()
    assert dict(row.split("=", 1) for row in rows if row and not row.startswith("#")) == dict(used)


def test_every_port_is_bound_to_this_machine() -> None:
    ports = re.findall(r"^    ports: \[(.*)\]$", _COMPOSE, re.MULTILINE)
    assert len(ports) == _COMPOSE.count("ports:") == 7
    assert all(port.startswith('"127.0.0.1:${') for port in ports)


def blocks(text: str, indent: int) -> dict[str, str]:
    """The mappings at that depth of a compose file, by their names."""
    parts = re.split(rf"^ {{{indent}}}([\w-]+):", text, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


_SERVICES = blocks(_COMPOSE[_COMPOSE.index("\nservices:") : _COMPOSE.index("\nvolumes:")], 2)
_EVERY = ("restart", "deploy", "logging")


def test_every_service_is_bounded_and_restarted_and_has_time_to_stop() -> None:
    assert {"kafka-1", "acker", "spark-split", "grafana"} <= _SERVICES.keys()
    for name, text in _SERVICES.items():
        shared = re.search(r"<<: \*(broker|ours|acker|one-shot|spark-driver)$", text, re.MULTILINE)
        assert shared or all(f"\n    {key}:" in text for key in _EVERY), name
        assert "container_name" not in text, "it could not be scaled"
    anchors = {
        name: _COMPOSE[_COMPOSE.index(f"&{name}\n") :].split("\n\n")[0] for name in ("broker", "ours", "spark-driver")
    }
    for block in (anchors["broker"], anchors["ours"]):
        assert all(f"\n  {key}:" in block for key in _EVERY)
    assert _COMPOSE.count("cpus:") == _COMPOSE.count("memory:")
    for text, least in ((anchors["ours"], supervision.STOP_SECONDS), (anchors["spark-driver"], submit._STOP_SECONDS)):
        (seconds,) = re.findall(r"stop_grace_period: (\d+)s", text)
        assert int(seconds) > least


def test_the_image_has_locked_versions_and_serves_its_health_check() -> None:
    recipe = (ROOT / "Dockerfile").read_text()
    installed = re.findall(r"pip install [^\n]*", recipe)
    locked, ours = "pip install -q -r requirements.txt -c constraints.txt", "pip install -q --no-deps . \\"
    assert installed == [locked, ours, locked, ours]
    port = re.findall(r"ACKER_METRICS__PORT=(\d+)", recipe)
    assert port == re.findall(r"^EXPOSE (\d+)$", recipe, re.MULTILINE)
    assert "/dev/tcp/127.0.0.1/$ACKER_METRICS__PORT" in recipe
    jars = listed((ROOT / "deploy" / "spark-jars.txt").read_text())
    for package in packages():
        group, artifact, version = package.split(":")
        assert f"{group.replace('.', '/')}/{artifact}/{version}/{artifact}-{version}.jar" in jars


def test_the_acker_image_has_neither_spark_nor_java() -> None:
    recipe = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    stages = dict(re.findall(r"^FROM \S+ AS ([\w-]+)\n(.*?)(?=^FROM|\Z)", recipe, re.DOTALL | re.MULTILINE))
    assert "target: acker" in _SERVICES["topics"]
    assert "target: spark" in _SERVICES["spark-topics"]
    for name in ("build", "installed", "base", "acker"):
        assert not re.search("spark|jre|java", stages[name], re.IGNORECASE), name
    assert "openjdk" in stages["spark"]


def test_images_are_pinned_and_no_password_is_preset() -> None:
    pinned = r"[\w./-]+:[\w.-]+@sha256:[0-9a-f]{64}"
    used = dict(re.findall(r"\$\{([A-Z]+_IMAGE):-([^}]*)\}", _COMPOSE))
    assert used.keys() == {"ACKER_IMAGE", "KAFKA_IMAGE", "PYTHON_IMAGE", "PROMETHEUS_IMAGE", "GRAFANA_IMAGE"}
    assert all(re.fullmatch(pinned, image) for name, image in used.items() if name != "ACKER_IMAGE")
    assert len(re.findall(r"\bimage:", _COMPOSE)) == len(re.findall(r"image: (?:&[\w-]+ )?[\"*$]", _COMPOSE))
    assert used["KAFKA_IMAGE"].startswith(f"{IMAGE}@")
    base = f"ARG PYTHON_IMAGE={used['PYTHON_IMAGE']}\n"
    assert base in (ROOT / "Dockerfile").read_text()
    assert KAFKA_VERSION in used["KAFKA_IMAGE"]
    assert f"{{KAFKA_IMAGE:-{used['KAFKA_IMAGE']}}}" in (ROOT / "tests" / "chaos" / "compose.yml").read_text()
    assert "PASSWORD" not in _COMPOSE
    assert 'GF_SECURITY_DISABLE_INITIAL_ADMIN_CREATION: "true"' in _SERVICES["grafana"]


def test_health_is_not_that_of_a_port() -> None:
    """Spark's own services aside: it has pages there."""
    shared = blocks(_COMPOSE[: _COMPOSE.index("\nservices:")], 0)
    checked = {name for name, text in (shared | _SERVICES).items() if '": </dev/tcp/' in text}
    assert checked == {"x-spark-driver", "spark-master"}


def test_a_jar_is_checked_and_fetched_by_ivy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.jar").write_bytes(b"jar")
    assert fetch(tmp_path.as_uri(), "a.jar", hashlib.sha256(b"jar").hexdigest()) == b"jar"
    with pytest.raises(ValueError, match="mistrust the repository"):
        fetch(tmp_path.as_uri(), "a.jar", hashlib.sha256(b"another").hexdigest())
    assert re.fullmatch(r"https://[^/]+/maven2/", default_repository())
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(LookupError, match="give its address as third argument"):
        default_repository()


def test_the_dashboard_shows_metrics_that_are_there() -> None:
    panels = json.loads((ROOT / "deploy" / "grafana" / "dashboards" / "kafka-acker.json").read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert all(panel["type"] == "row" or panel["targets"] for panel in panels)
    shown = json.dumps([panel.get("targets") for panel in panels])
    assert {name.removesuffix("_bucket") for name in re.findall(r"\backer_[a-z_]+", shown)} <= NAMES
