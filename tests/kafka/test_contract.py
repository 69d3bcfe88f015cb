"""The contract on a real Kafka."""

import pytest

from tests.contract.outcomes import Outcomes, SlowOutcomes
from tests.contract.real import RealWorld
from tests.contract.records import Records
from tests.contract.world import World


class TestReal(Records, Outcomes):
    @pytest.fixture
    def world(self, bootstrap_servers: str) -> RealWorld:
        return RealWorld(bootstrap_servers)

    @pytest.mark.smoke
    def test_the_wire(self, world: World) -> None:
        super().test_the_wire(world)


@pytest.mark.exhaustive
class TestRealAndSlow(SlowOutcomes):
    @pytest.fixture
    def world(self, bootstrap_servers: str) -> RealWorld:
        return RealWorld(bootstrap_servers)
