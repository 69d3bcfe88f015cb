"""SIGKILL of processes of chains: no message is lost or done too early; with `exactly_once`, each result is once."""

import random
from pathlib import Path

import pytest

from tests.chaos.arena import PARTS
from tests.kafka.chain_rig import Start, starter
from tests.kafka.chain_topologies import CHAIN_STEPS, LEAVING_STEPS
from tests.kafka.sdk_rig import acking


@pytest.fixture
def start(bootstrap_servers: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Start:
    return starter(bootstrap_servers, monkeypatch, tmp_path)


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_a_killed_chain_loses_nothing(start: Start, guarantee: str) -> None:
    run = start(guarantee)
    with acking(run.cluster), run.runner:
        run.kill_at("held")
        run.kill_at("undelivered")
        run.finish()
    if guarantee == "exactly_once":
        assert set(run.results().values()) == {1}


@pytest.mark.exhaustive
@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_kills_of_a_chain_lose_nothing(start: Start, guarantee: str, processes: int) -> None:
    run = start(guarantee, processes)
    steps = CHAIN_STEPS if guarantee == "at_least_once" else (*CHAIN_STEPS, "committing")
    with acking(run.cluster), run.runner:
        for step in random.sample(steps, len(steps)):
            run.kill_at(step)
        for _ in range(4):
            run.kill()
        run.finish()
    if guarantee == "exactly_once":
        assert set(run.results().values()) == {1}
    else:
        assert run.results().total() > PARTS * run.fed, "what is read again is there twice: the kills came in time"


@pytest.mark.exhaustive
def test_no_tree_that_leaves_its_chain_is_acked_before_its_last_tuple_is_executed(start: Start) -> None:
    run = start("leaving")
    with acking(run.cluster), run.runner:
        for step in random.sample(LEAVING_STEPS, len(LEAVING_STEPS)):
            run.kill_at(step)
        for _ in range(4):
            run.kill()
        run.finish()
