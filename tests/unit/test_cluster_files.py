"""What the cluster's files say, without an engine: defaults, ports, jars, metrics."""

import hashlib
import json
import re
from pathlib import Path

import pytest

from deploy.fetch_jars import default_repository, fetch, listed
from spark_jobs.packages import packages
from tests.unit.test_deployment_doc import NAMES

_ROOT = Path(__file__).parents[2]
_COMPOSE = (_ROOT / "docker-compose.yml").read_text()


def test_every_variable_is_in_the_example_with_its_default() -> None:
    used = dict(re.findall(r"\$\{([A-Z0-9_]+):-([^}]*)\}", _COMPOSE))
    assert len(re.findall(r"\$\{", _COMPOSE)) == len(re.findall(r"\$\{[A-Z0-9_]+:-[^}]*\}", _COMPOSE))
    rows = (_ROOT / ".env.example").read_text().splitlines()
    example = dict(row.split("=", 1) for row in rows if row and not row.startswith("#"))
    assert example == used


def test_a_variable_has_one_default() -> None:
    defaults: dict[str, set[str]] = {}
    for name, default in re.findall(r"\$\{([A-Z0-9_]+):-([^}]*)\}", _COMPOSE):
        defaults.setdefault(name, set()).add(default)
    assert [name for name, values in defaults.items() if len(values) > 1] == []


def test_every_port_is_bound_to_this_machine() -> None:
    ports = re.findall(r"^    ports: \[(.*)\]$", _COMPOSE, re.MULTILINE)
    assert len(ports) == _COMPOSE.count("ports:") == 6
    assert all(port.startswith('"127.0.0.1:${') for port in ports)


def test_the_image_brings_the_packages_that_a_job_asks_for() -> None:
    jars = listed((_ROOT / "deploy" / "spark-jars.txt").read_text())
    for package in packages():
        group, artifact, version = package.split(":")
        assert f"{group.replace('.', '/')}/{artifact}/{version}/{artifact}-{version}.jar" in jars


def test_a_jar_that_was_not_listed_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.jar").write_bytes(b"jar")
    repository = tmp_path.as_uri()
    assert fetch(repository, "a.jar", hashlib.sha256(b"jar").hexdigest()) == b"jar"
    with pytest.raises(ValueError, match="mistrust the repository"):
        fetch(repository, "a.jar", hashlib.sha256(b"another").hexdigest())


def test_jars_come_from_where_ivy_fetches_them(monkeypatch: pytest.MonkeyPatch) -> None:
    assert re.fullmatch(r"https://[^/]+/maven2/", default_repository())
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(LookupError, match="give its address as third argument"):
        default_repository()


def test_the_dashboard_shows_metrics_that_are_there() -> None:
    dashboard = json.loads((_ROOT / "deploy" / "grafana" / "dashboards" / "kafka-acker.json").read_text())
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(ids) == len(set(ids))
    assert all(panel["type"] == "row" or panel["targets"] for panel in dashboard["panels"])
    shown = json.dumps([panel.get("targets") for panel in dashboard["panels"]])
    assert {name.removesuffix("_bucket") for name in re.findall(r"\backer_[a-z_]+", shown)} <= NAMES
