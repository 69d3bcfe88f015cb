"""SIGKILL of processes of chains: no message is lost or done too early; with `exactly_once`, each result is once."""

import random

import pytest

from tests.kafka.kill_rig import Start
from tests.kafka.killed import CHAIN_STEPS, LEAVING_STEPS
from tests.kafka.sdk_rig import acking


@pytest.mark.parametrize("guarantee", [pytest.param("at_least_once", marks=pytest.mark.exhaustive), "exactly_once"])
def test_a_killed_chain_loses_nothing(start: Start, guarantee: str) -> None:
    run = start(f"chain_{guarantee}")
    with acking(run.cluster), run.runner:
        run.kill_at("held")
        run.kill_at("undelivered")
        run.finish()
    if guarantee == "exactly_once":
        assert run.results() == run.expected()


@pytest.mark.exhaustive
@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("topology", ["chain_at_least_once", "chain_exactly_once", "chain_leaving"])
def test_kills_of_a_chain_lose_nothing(start: Start, topology: str, processes: int) -> None:
    run = start(topology, processes)
    steps: tuple[str, ...] = LEAVING_STEPS if topology == "chain_leaving" else CHAIN_STEPS
    steps += ("committing",) if topology == "chain_exactly_once" else ()
    with acking(run.cluster), run.runner:
        for step in random.sample(steps, len(steps)):
            run.kill_at(step)
        for _ in range(4):
            run.kill()
        run.finish()
    if topology == "chain_exactly_once":
        assert run.results() == run.expected()
    else:
        assert run.results().total() > run.expected().total(), "what is read again is there twice: kills came in time"
