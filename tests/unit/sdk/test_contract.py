"""The contract in memory."""

from itertools import cycle

import pytest

from tests.contract.in_memory import InMemoryWorld
from tests.contract.outcomes import Outcomes, SlowOutcomes
from tests.contract.records import Records
from tests.contract.themes import SCENARIOS
from tests.seeds import each_seed

PACKS = (1, 3, 1_000)


class TestInMemory(Records, Outcomes, SlowOutcomes):
    @pytest.fixture(params=PACKS, ids="packs of {}".format)
    def world(self, request: pytest.FixtureRequest) -> InMemoryWorld:
        return InMemoryWorld(seed=request.param, pack_tuples=request.param)


@pytest.mark.parametrize(("name", "pack_tuples"), [*zip(SCENARIOS, cycle(PACKS), strict=False)], ids=SCENARIOS)
def test_scenario(name: str, pack_tuples: int) -> None:
    SCENARIOS[name].play(InMemoryWorld(seed=pack_tuples, pack_tuples=pack_tuples))


@pytest.mark.exhaustive
@pytest.mark.parametrize("pack_tuples", PACKS)
@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario_with_any_seed(name: str, pack_tuples: int) -> None:
    each_seed(lambda seed: SCENARIOS[name].play(InMemoryWorld(seed, pack_tuples)))
