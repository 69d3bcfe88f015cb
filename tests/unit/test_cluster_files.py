"""What the cluster's files say, without an engine: defaults, ports, jars, metrics."""

import hashlib
import json
import re
from pathlib import Path

import pytest

from deploy.fetch_jars import default_repository, fetch, listed
from spark_jobs import submit
from spark_jobs.packages import packages
from spout_sdk import supervisor
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
    assert len(ports) == _COMPOSE.count("ports:") == 7
    assert all(port.startswith('"127.0.0.1:${') for port in ports)


def blocks(text: str, indent: int) -> dict[str, str]:
    """The mappings that stand that deep in a compose file, by their names."""
    parts = re.split(rf"^ {{{indent}}}([\w-]+):", text, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


_SERVICES = blocks(_COMPOSE[_COMPOSE.index("\nservices:") : _COMPOSE.index("\nvolumes:")], 2)
_EVERY = ("restart", "deploy", "logging")


def test_every_service_is_bounded_and_started_again() -> None:
    assert {"kafka-1", "acker", "spark-split", "grafana"} <= _SERVICES.keys()
    for name, text in _SERVICES.items():
        shared = re.search(r"<<: \*(broker|ours|one-shot)$", text, re.MULTILINE)
        assert shared or all(f"\n    {key}:" in text for key in _EVERY), name
        assert "container_name" not in text, "it could not be scaled"
    for shared_by in ("broker", "ours"):
        block = _COMPOSE[_COMPOSE.index(f"&{shared_by}\n") :].split("\n\n")[0]
        assert all(f"\n  {key}:" in block for key in _EVERY)
    assert _COMPOSE.count("cpus:") == _COMPOSE.count("memory:")


def test_whoever_is_told_to_stop_has_the_time_it_takes() -> None:
    def grace(text: str) -> int:
        (seconds,) = re.findall(r"stop_grace_period: (\d+)s", text)
        return int(seconds)

    ours = _COMPOSE[_COMPOSE.index("&ours\n") :].split("\n\n")[0]
    assert grace(ours) > supervisor.STOP_SECONDS
    assert grace(_SERVICES["spark-split"]) > submit._STOP_SECONDS


def test_nothing_else_gets_into_the_image() -> None:
    rows = [row for row in (_ROOT / ".dockerignore").read_text().splitlines() if not row.startswith("#")]
    assert rows[0] == "*"
    allowed = {row[1:].rstrip("/") for row in rows if row.startswith("!")}
    assert not [name for name in allowed if any(part.startswith(".") for part in Path(name).parts)]
    for part in allowed:
        assert (_ROOT / part).exists(), part
    packages_ = {path.parent.name for path in _ROOT.glob("*/__init__.py")} - {
        "tests",
        "benchmarks",
        "examples",
        "deploy",
    }
    assert packages_ <= allowed


def test_the_image_has_the_versions_that_are_locked() -> None:
    recipe = (_ROOT / "Dockerfile").read_text()
    installs = re.findall(r"pip install [^\n]*", recipe)
    assert len(installs) == 2
    assert installs[0].startswith("pip install -q -r requirements.txt -c constraints.txt")
    assert "--no-deps ." in installs[1]


def test_the_image_serves_what_its_health_check_asks_for() -> None:
    recipe = (_ROOT / "Dockerfile").read_text()
    port = re.findall(r"ACKER_METRICS__PORT=(\d+)", recipe)
    assert port == re.findall(r"^EXPOSE (\d+)$", recipe, re.MULTILINE)
    assert "/dev/tcp/127.0.0.1/$ACKER_METRICS__PORT" in recipe


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
