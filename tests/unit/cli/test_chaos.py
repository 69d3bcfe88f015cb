"""Kills come in the middle, and hit only who is working."""

from dataclasses import dataclass

import pytest

from acker_cli.demo.chaos import Chaos, Victim
from spout_sdk import Stats


@dataclass
class FakeWorker:
    pid: int
    is_busy: bool


def stats(executed: int, pids: tuple[int, ...] = (20, 21)) -> dict[str, Stats]:
    return {"count": Stats("count", pids=pids, tasks=tuple(range(len(pids))), executed=executed)}


def run(chaos: Chaos, shares: list[float], *, busy: bool = True, pids: tuple[int, ...] = (20, 21)) -> None:
    for number, share in enumerate(shares):
        workers = [FakeWorker(10, busy), FakeWorker(11, False)]
        chaos.step(share, workers, stats(number if busy else 0, pids), {"count": [20, 21]})


@pytest.mark.parametrize("seed", range(50))
def test_one_acker_and_one_bolt_process_are_killed_in_the_middle(seed: int) -> None:
    killed: list[tuple[float, Victim]] = []
    share = 0.0
    chaos = Chaos(seed, ["count"], lambda victim: killed.append((share, victim)))
    for step in range(1001):
        share = step / 1000
        chaos.step(share, [FakeWorker(10, True)], stats(step), {"count": [20, 21]})
    assert (chaos.acker_kills, chaos.bolt_kills) == (1, 1)
    (acker_at, acker), (bolt_at, bolt) = killed
    assert acker == Victim(10, "acker worker")
    assert bolt.role == "count process"
    assert bolt.pid in (20, 21)
    assert 0.2 < acker_at < 0.45 < bolt_at < 0.7


def test_who_is_idle_is_spared() -> None:
    killed: list[Victim] = []
    run(Chaos(1, ["count"], killed.append), [0.1, 0.9, 1.0], busy=False)
    assert killed == []


def test_a_process_without_a_task_is_spared() -> None:
    killed: list[Victim] = []
    run(Chaos(1, ["count"], killed.append), [0.1, 0.9, 1.0], pids=(20,))
    assert [victim.role for victim in killed] == ["acker worker"]


def test_the_same_seed_makes_the_same_choice() -> None:
    killed: list[list[Victim]] = [[], []]
    for victims in killed:
        run(Chaos(7, ["count"], victims.append), [step / 100 for step in range(100)])
    assert killed[0] == killed[1]
