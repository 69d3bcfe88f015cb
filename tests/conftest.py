"""One real Kafka for all tests that need one; `broker` says which."""

import os
from collections.abc import Iterator

import pytest

from tests.broker import BrokerChoiceError, choose, forced, running

_USED = pytest.StashKey[str]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--screenshots",
        metavar="DIRECTORY",
        help="where the browser's tests put pictures of the dashboard; none unless set",
    )


def pytest_configure() -> None:
    try:
        forced(os.environ)
    except BrokerChoiceError as error:
        raise pytest.UsageError(str(error)) from error


@pytest.fixture(scope="session")
def bootstrap_servers(request: pytest.FixtureRequest) -> Iterator[str]:
    choice = choose(os.environ, _container_problem)
    request.config.stash[_USED] = str(choice)
    with running(choice) as servers:
        yield servers


def _container_problem() -> str:
    # Docker's client is slow to import, and most runs need none.
    from tests.broker_container import container_problem

    return container_problem()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    used = config.stash.get(_USED, None)
    if used is not None:
        terminalreporter.write_line(f"Kafka of the tests: {used}")
