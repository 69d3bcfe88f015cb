"""The shares of tasks by their load, and simulations of what follows from them."""

import math
import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spout_sdk.statistics.task_shares import STALE_SECONDS, Load, TaskShares, shares_of
from tuple_tree.process_stats import StatsRecord
from tuple_tree.shuffle import turns_of

LOADS = st.builds(Load, st.floats(0.01, 1e6), st.floats(0, 1e6), st.floats(0, 1e7))


def record(
    task: int, seconds: float, executed: int, busy: float, waiting: int, run: str = "a", tasks: Sequence[int] = ()
) -> StatsRecord:
    """The statistics of a process that has a task, `seconds` after its start."""
    key = str(task)
    stats = {
        "tasks": [*tasks] or [task],
        "task_executed": {key: executed},
        "task_busy_ms": {key: round(1000 * busy)},
        "task_waiting": {key: waiting},
    }
    return StatsRecord("component", "work", "host", 7 + task, run, int(1000 * seconds), stats=stats)


@given(st.lists(st.none() | LOADS, min_size=1, max_size=30))
def test_shares_add_up_to_one(loads: list[Load | None]) -> None:
    shares = shares_of(loads)
    assert math.isclose(sum(shares), 1)
    assert min(shares) >= 0
    assert turns_of(shares) is None or min(turns_of(shares) or ()) >= 1


@given(LOADS, st.integers(1, 30), st.integers(0, 30))
def test_tasks_with_the_same_load_or_without_a_known_one_have_equal_shares(load: Load, some: int, rest: int) -> None:
    assert turns_of(shares_of([load] * some + [None] * rest)) is None


def test_shares_follow_the_speed_where_tasks_have_much_to_do_and_the_unknown_have_an_average() -> None:
    assert shares_of([Load(1_000, 10, 0), Load(100, 10, 0)]) == [0.5, 0.5]
    assert shares_of([Load(1_000, 100, 0), Load(100, 100, 0)]) == pytest.approx([10 / 11, 1 / 11])
    shares = shares_of([Load(100, 100, 5_000), Load(100, 100, 100), None])
    assert shares[0] < shares[2] < shares[1]
    assert shares_of([Load(1_000, 500, 0), Load(100, 90, 0), None])[2] == pytest.approx(1 / 3)


def test_statistics_that_are_stale_or_of_an_ended_process_count_for_nothing() -> None:
    of = TaskShares(2)
    for stats in ({}, {"tasks": [0, 9]}, {"tasks": [0], "task_executed": {"0": 9}}):
        of.feed(StatsRecord("component", "work", "host", 7, "a", 20_000, stats=stats), now=1)
    assert of.shares(1) == [0.5, 0.5], "none has what is needed"
    of.feed(record(0, 10, 1_000, 10, 0), now=100)
    of.feed(record(1, 10, 10_000, 10, 0), now=100)
    assert of.shares(100 + STALE_SECONDS) == pytest.approx([1 / 11, 10 / 11])
    assert of.shares(100.1 + STALE_SECONDS) == [0.5, 0.5]
    of.feed(StatsRecord("component", "work", "host", 7, "a", 20_000, ended=True, stats={"tasks": [0]}), now=110)
    assert of.shares(110) == [0.5, 0.5]


def test_tasks_that_share_a_process_have_less_each() -> None:
    of = TaskShares(3)
    for task, of_process in ((0, (0, 1)), (1, (0, 1)), (2, (2,))):
        of.feed(record(task, 10, 1_000 // len(of_process), 10 / len(of_process), 0, tasks=of_process), now=1)
    assert of.shares(1) == pytest.approx([0.25, 0.25, 0.5])


def test_a_task_that_moves_is_measured_anew() -> None:
    of = TaskShares(2)
    for second in range(1, 6):
        of.feed(record(0, second, 1_000 * second, second, 0), now=second)
        of.feed(record(1, second, 100 * second, second, 0), now=second)
    for second in range(1, 9):
        of.feed(record(0, 5 + second, 5_000 + 1_000 * second, 5 + second, 0), now=5 + second)
        of.feed(record(1, 0.5 + second, 1_000 * second, second, 0, run="b"), now=5 + second)
    assert of.shares(13) == [0.5, 0.5]


def test_a_call_that_has_not_returned_is_counted_once() -> None:
    """A tuple takes five seconds; the busy time of a call is published when it ends."""
    of = TaskShares(2)
    for second in range(1, 61):
        ended = second // 5
        of.feed(record(0, second, ended, 5 * ended, 10), now=second)
        of.feed(record(1, second, second, second, 50), now=second)
    # Of a fifth of the speed, and as long a wait.
    assert of.shares(60) == pytest.approx([1 / 6, 5 / 6], abs=0.05)


@dataclass
class Simulation:
    """Tasks with different speeds, a spout that keeps trees open, and statistics that are late."""

    speeds: list[float]
    delay: float = 1.0  # until statistics are read; they are of the last second, and the backlog is a second older
    pending: int = 10_000
    rate: float = math.inf  # tuples a second of the spout
    busy_part: float = 1.0  # of the time of a task that executes
    seed: int = 1
    shares: list[list[float]] = field(default_factory=list)  # at each half second
    STEP = 0.05

    def __post_init__(self) -> None:
        tasks = len(self.speeds)
        self.chance = random.Random(self.seed)
        self.of = TaskShares(tasks)
        self.share = [1 / tasks] * tasks
        self.now, self.done = 0.0, 0.0
        self.backlog, self.executed, self.busy, self.before = ([0.0] * tasks for _ in range(4))
        self.publish = [self.chance.random() for _ in self.speeds]
        self.look = 0.5
        self.on_the_way: deque[tuple[float, StatsRecord]] = deque()
        self.may_emit = 0.0

    def run(self, seconds: float) -> float:
        """Returns the throughput against the sum of what the tasks can do."""
        done, until = self.done, self.now + seconds
        while self.now < until:
            self._step()
        return (self.done - done) / seconds / sum(self.speeds)

    def _step(self) -> None:
        self.may_emit = min(self.may_emit + self.rate * self.STEP, self.pending)
        new = max(0.0, min(self.may_emit, self.pending - sum(self.backlog)))
        self.may_emit -= new if self.rate < math.inf else 0
        for task, speed in enumerate(self.speeds):
            self.backlog[task] += new * self.share[task]
            able = speed * self.STEP * self.chance.uniform(0.8, 1.2)
            executed = min(self.backlog[task], able)
            self.backlog[task] -= executed
            self.executed[task] += executed
            self.busy[task] += self.busy_part * self.STEP * executed / able if able else 0
            self.done += executed
            if self.now >= self.publish[task]:
                self.publish[task] += 1
                counts = int(self.executed[task]), self.busy[task], int(self.before[task])
                self.on_the_way.append((self.now + self.delay, record(task, 1 + self.now, *counts)))
                self.before[task] = self.backlog[task]
        while self.on_the_way and self.on_the_way[0][0] <= self.now:
            self.of.feed(self.on_the_way.popleft()[1], self.now)
        if self.now >= self.look:
            self.look += 0.5
            turns = turns_of(self.of.shares(self.now))
            self.share = [each / sum(turns) for each in turns] if turns else [1 / len(self.speeds)] * len(self.speeds)
            self.shares.append(self.share)
        self.now += self.STEP

    def spread_of(self, task: int, seconds: float) -> float:
        """The largest share of a task in the last seconds, as a multiple of the smallest."""
        latest = [shares[task] for shares in self.shares[-int(2 * seconds) :]]
        return max(latest) / min(latest)


SPEEDS = {
    "one is ten times as slow": [1_000.0] * 3 + [100.0],
    "one is a hundred times as slow": [1_000.0] * 3 + [10.0],
    "all differ": [1_000.0, 700.0, 400.0, 100.0, 50.0, 900.0],
    "one is 15 % slower": [1_000.0] * 3 + [850.0],
    "fast ones": [20_000.0] * 3 + [2_000.0],
}


@pytest.mark.parametrize("delay", [0.5, 2.0])
@pytest.mark.parametrize("speeds", SPEEDS.values(), ids=SPEEDS)
def test_all_tasks_have_work_soon_and_shares_do_not_oscillate(speeds: list[float], delay: float) -> None:
    simulation = Simulation([*speeds], delay)
    simulation.run(4 + delay)
    assert simulation.run(20) >= 0.97
    simulation.run(60)
    assert simulation.run(20) >= 0.97
    for task, speed in enumerate(speeds):
        # Of a round of 1,000 turns a slow task has few.
        assert simulation.spread_of(task, 20) < 1.15 + 4 / (1_000 * speed / sum(speeds))


@pytest.mark.parametrize("rate", [500.0, 2_000.0, math.inf])
@pytest.mark.parametrize("busy_part", [0.06, 1.0])
def test_tasks_keep_up_with_the_spout_also_if_their_time_is_mostly_that_of_the_sdk(
    rate: float, busy_part: float
) -> None:
    simulation = Simulation([1_000.0] * 3 + [100.0], rate=rate, busy_part=busy_part)
    simulation.run(20)
    assert simulation.run(60) * 3_100 == pytest.approx(min(rate, 3_100), rel=0.03)
    assert simulation.backlog[3] < 600


@pytest.mark.parametrize(
    ("speeds", "options"),
    [*(([1_000.0] * 4, {"busy_part": part}) for part in (0.001, 0.06, 1.0)), ([1_000.0] * 3 + [100.0], {"rate": 60.0})],
    ids=["cheap tuples", "with some work", "with work only", "a slow one that can do its equal share"],
)
def test_tasks_that_can_do_equal_shares_keep_them(speeds: list[float], options: Any) -> None:
    simulation = Simulation(speeds, **options)
    simulation.run(4)  # at first, statistics of some have the backlog of the start, and those of others do not
    assert simulation.run(60) * sum(speeds) >= 0.97 * min(simulation.rate, sum(speeds))
    assert all(shares == [0.25] * 4 for shares in simulation.shares[8:])


def test_a_task_that_becomes_slow_hangs_or_recovers_is_followed() -> None:
    simulation = Simulation([1_000.0] * 4)
    simulation.run(20)
    for speed, share in ((100.0, 100 / 3_100), (0.0, 1 / 1_000), (1_000.0, 1 / 4)):
        simulation.speeds[3] = speed
        simulation.run(10)
        assert simulation.run(40) >= 0.97
        assert simulation.share[3] == pytest.approx(share, abs=0.01)
