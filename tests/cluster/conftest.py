"""Fixtures of the cluster's tests: an engine, the image, and the removal of all containers in any case."""

import signal
import subprocess

import pytest

from tests.cluster.project import Project


def pytest_configure() -> None:
    # As Ctrl-C, so that whatever is running is unwound, and its containers are removed.
    signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def images(request: pytest.FixtureRequest) -> None:
    """Builds the images of the services: that with Spark only if a test needs it."""
    engine = subprocess.run(["docker", "info"], capture_output=True, text=True, check=False)
    assert engine.returncode == 0, f"no Docker engine answers: start one, or use .ci/docker. {engine.stderr}"
    with_spark = any(item.path.name == "test_spark.py" for item in request.session.items)
    services = ["topics", *(["spark-topics"] if with_spark else [])]
    Project().compose("--profile", "*", "build", "--quiet", *services, seconds=1500)
