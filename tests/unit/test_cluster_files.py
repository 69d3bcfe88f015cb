"""The files of the cluster in containers, without an engine: variables, ports, bounds, images, jars, metrics."""

import json
import re
from typing import Any

import pytest
import yaml

from kafka_clients import supervision
from local_kafka.distribution import KAFKA_VERSION
from local_kafka.maven import listed
from spark_jobs import submit
from spark_jobs.packages import packages
from tests.broker_container import IMAGE
from tests.pages import ROOT
from tests.unit.test_alerts import NAMES

_COMPOSE = (ROOT / "docker-compose.yml").read_text()
_SERVICES: dict[str, dict[str, Any]] = yaml.safe_load(_COMPOSE)["services"]
_DRIVERS = ("spark-lines", "spark-split", "spark-count")
_VARIABLES = re.findall(r"\$\{([A-Z0-9_]+):-([^}]*)\}", _COMPOSE)


def test_every_variable_has_one_default_which_the_example_names() -> None:
    assert len(_VARIABLES) == _COMPOSE.count("${")
    rows = (ROOT / ".env.example").read_text().splitlines()
    assert {tuple(row.split("=", 1)) for row in rows if row and not row.startswith("#")} == set(_VARIABLES)


@pytest.mark.parametrize("name", _SERVICES)
def test_every_service_is_bounded_and_local_and_has_time_to_stop(name: str) -> None:
    service = _SERVICES[name]
    assert {"restart", "logging"} <= service.keys()
    assert {"cpus", "memory"} <= service["deploy"]["resources"]["limits"].keys()
    assert "container_name" not in service, "it could not be scaled"
    assert all(port.startswith("127.0.0.1:${") for port in service.get("ports", ()))
    if "ACKER_IMAGE" in service["image"]:
        least = submit._STOP_SECONDS if name in _DRIVERS else supervision.STOP_SECONDS
        assert int(service["stop_grace_period"].removesuffix("s")) > least


def test_images_are_pinned_and_no_password_is_preset() -> None:
    used = {name: image for name, image in _VARIABLES if name.endswith("_IMAGE") and name != "ACKER_IMAGE"}
    assert all(re.fullmatch(r"[\w./-]+:[\w.-]+@sha256:[0-9a-f]{64}", image) for image in used.values())
    assert used["KAFKA_IMAGE"].startswith(f"{IMAGE}@")
    assert KAFKA_VERSION in used["KAFKA_IMAGE"]
    assert f"ARG PYTHON_IMAGE={used['PYTHON_IMAGE']}\n" in (ROOT / "Dockerfile").read_text()
    assert f"{{KAFKA_IMAGE:-{used['KAFKA_IMAGE']}}}" in (ROOT / "tests" / "chaos" / "compose.yml").read_text()
    assert "PASSWORD" not in _COMPOSE


def test_the_image_of_spark_has_the_jars_of_the_package() -> None:
    jars = listed((ROOT / "deploy" / "spark-jars.txt").read_text())
    for package in packages():
        group, artifact, version = package.split(":")
        assert f"{group.replace('.', '/')}/{artifact}/{version}/{artifact}-{version}.jar" in jars


def test_the_dashboard_shows_metrics_that_are_there() -> None:
    panels = json.loads((ROOT / "deploy" / "grafana" / "dashboards" / "kafka-acker.json").read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    shown = json.dumps([panel.get("targets") for panel in panels])
    assert {name.removesuffix("_bucket") for name in re.findall(r"\backer_[a-z_]+", shown)} <= NAMES
