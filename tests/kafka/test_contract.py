"""The contract on a real Kafka."""

import pytest

from tests.contract.outcomes import Outcomes, SlowOutcomes
from tests.contract.records import Records
from tests.contract.world import World


class TestReal(Records, Outcomes):
    @pytest.mark.smoke
    def test_the_wire(self, world: World) -> None:
        super().test_the_wire(world)


@pytest.mark.exhaustive
class TestRealAndSlow(SlowOutcomes):
    """Contracts that take long."""
