"""The contract in memory."""

import pytest

from tests.contract.in_memory import InMemoryWorld
from tests.contract.suite import Contract


class TestInMemory(Contract):
    @pytest.fixture(params=range(3))
    def world(self, request: pytest.FixtureRequest) -> InMemoryWorld:
        return InMemoryWorld(request.param)
