"""The contract in memory."""

import pytest

from tests.contract.in_memory import InMemoryWorld
from tests.contract.outcomes import Outcomes, SlowOutcomes
from tests.contract.records import Records


class TestInMemory(Records, Outcomes, SlowOutcomes):
    @pytest.fixture(params=[1, 3, 1_000], ids="packs of {}".format)
    def world(self, request: pytest.FixtureRequest) -> InMemoryWorld:
        return InMemoryWorld(seed=request.param, pack_tuples=request.param)
