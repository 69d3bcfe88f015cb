"""The contract on a real Kafka."""

import pytest

from tests.contract.real import RealWorld
from tests.contract.suite import Contract


class TestReal(Contract):
    @pytest.fixture
    def world(self, bootstrap_servers: str) -> RealWorld:
        return RealWorld(bootstrap_servers)
