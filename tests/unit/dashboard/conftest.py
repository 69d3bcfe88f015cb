"""A dashboard of made-up figures."""

from collections.abc import Iterator

import pytest

from inspection.dashboard import DashboardServer
from inspection.http_server import ServedAt
from tests.unit.dashboard.figures import Figures
from tests.unit.dashboard.http import TOKEN


@pytest.fixture
def figures() -> Figures:
    return Figures()


@pytest.fixture
def served(figures: Figures) -> Iterator[DashboardServer]:
    with DashboardServer(figures, ServedAt(token=TOKEN)) as server:
        yield server
