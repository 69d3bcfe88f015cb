"""A dashboard of made-up figures."""

from collections.abc import Iterator

import pytest

from inspection.dashboard import DashboardServer, ServedAt
from tests.unit.dashboard.figures import Figures


@pytest.fixture
def figures() -> Figures:
    return Figures()


@pytest.fixture
def served(figures: Figures) -> Iterator[DashboardServer]:
    with DashboardServer(figures, ServedAt()) as server:
        yield server
