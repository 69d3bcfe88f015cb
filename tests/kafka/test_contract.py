"""The contract on a real Kafka: several topologies at the same time, each with processes in threads."""

import gc
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from tests.contract.outcomes import Outcomes, SlowOutcomes
from tests.contract.real import RealWorld, mortal_clients
from tests.contract.records import Records
from tests.contract.themes import SCENARIOS
from tests.contract.world import World

AT_A_TIME = 6
SMOKE = "test_the_wire"

# So that one process plays all of them.
pytestmark = pytest.mark.xdist_group("contract")


def _promises(of: type[Any]) -> dict[str, Callable[[World], None]]:
    return {name: getattr(of(), name) for name in vars(of) if name.startswith("test_")}


PROMISES = {**_promises(Records), **_promises(Outcomes)}
SLOW = _promises(SlowOutcomes)


def _marked(name: str) -> Any:
    if name == SMOKE:
        return pytest.param(name, marks=pytest.mark.smoke)
    is_quick = name in PROMISES or (name in SCENARIOS and SCENARIOS[name].is_quick)
    return name if is_quick else pytest.param(name, marks=pytest.mark.exhaustive)


@pytest.fixture(scope="module")
def played(request: pytest.FixtureRequest, bootstrap_servers: str) -> Iterator[dict[str, "Future[None]"]]:
    """The runs of this module that were chosen."""
    plays = {**PROMISES, **SLOW, **{name: scenario.play for name, scenario in SCENARIOS.items()}}
    chosen = [item.callspec.params["name"] for item in request.session.items if item.path == request.path]  # type: ignore[attr-defined]
    with mortal_clients(), ThreadPoolExecutor(AT_A_TIME) as pool:
        yield {name: pool.submit(plays[name], RealWorld(bootstrap_servers, has_slots=True)) for name in chosen}
    gc.collect()  # clients in cycles would log that the broker ends


@pytest.mark.parametrize("name", [_marked(name) for name in (*PROMISES, *SLOW, *SCENARIOS)])
def test_contract(name: str, played: dict[str, "Future[None]"]) -> None:
    played[name].result()
