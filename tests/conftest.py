"""One Kafka for a whole run, and the two depths of the tests: `make test`, and `make test-all` with `--exhaustive`."""

import os
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from hypothesis import HealthCheck, settings

from kafka_clients import repeated_lines
from tests.broker import chosen, running

_SHARED = "bootstrap_servers"

# A loaded machine makes an example slow; that is not a failure.
settings.register_profile("fast", deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile(
    "exhaustive", deadline=None, max_examples=500, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--exhaustive",
        action="store_true",
        help="also run the tests marked exhaustive, with more seeds and more examples of the property tests",
    )
    parser.addoption(
        "--screenshots",
        metavar="DIRECTORY",
        help="where the browser tests save pictures of the dashboard; none unless set",
    )


def pytest_configure(config: pytest.Config) -> None:
    chosen()
    exhaustive = bool(config.getoption("--exhaustive"))
    settings.load_profile("exhaustive" if exhaustive else "fast")
    os.environ["ACKER_TEST_SEEDS"] = "30" if exhaustive else "1"
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_SharedBroker(config), "shared-broker")


class _SharedBroker:
    """Runs the broker in the controller of pytest-xdist, for all its workers."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._stack = ExitStack()
        self._servers: str | None = None

    @pytest.hookimpl
    def pytest_configure_node(self, node: object) -> None:
        if self._servers is None and not all("tests/unit" in argument for argument in self._config.args):
            self._servers = self._stack.enter_context(running(chosen()))
        node.workerinput[_SHARED] = self._servers  # type: ignore[attr-defined]

    @pytest.hookimpl
    def pytest_unconfigure(self) -> None:
        self._stack.close()


@pytest.fixture(scope="session")
def bootstrap_servers(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of the broker that all tests share; the names of topologies separate their topics."""
    shared = getattr(request.config, "workerinput", {}).get(_SHARED)
    if shared is not None:
        yield shared
    else:
        with running(chosen()) as servers:
            yield servers


@pytest.fixture(autouse=True)
def all_log_lines() -> None:
    """No log line is left out because an earlier test has caused it."""
    repeated_lines.forget()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--exhaustive"):
        exhaustive = [item for item in items if item.get_closest_marker("exhaustive")]
        config.hook.pytest_deselected(items=exhaustive)
        items[:] = [item for item in items if not item.get_closest_marker("exhaustive")]
    # The single Spark session is the longest chain of tests: it starts first, on a worker of its own.
    items.sort(key=lambda item: item.path.parent.name != "spark")


def pytest_report_header(config: pytest.Config) -> str:
    return f"kafka: {chosen()}, exhaustive: {config.getoption('--exhaustive')}"
