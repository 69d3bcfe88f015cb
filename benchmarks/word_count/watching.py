"""A round, watched from outside: its progress, and the CPU time of its processes.

The steady part of a round lies between the first and the last tenth of what is to be processed, or begins later where
a contestant compiles while it runs, and ends earlier where much is under way at a time: at its end as much has to be
under way as at its beginning, or work would be left out. What stands between two looks is taken for even.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final, Protocol

from benchmarks.errors import BenchmarkError
from benchmarks.processes import cpu_seconds, descendants

FIRST: Final = 0.1
"""Share of a round with which its steady part begins, unless the contestant has another."""
LAST: Final = 0.9
"""Share with which it ends, unless more than that is under way at a time."""
_LOOK_SECONDS: Final = 0.1


class Run(Protocol):
    """A contestant that runs."""

    @property
    def total(self) -> int:
        """What it has to process, in the unit of `done`."""
        ...

    def done(self) -> int:
        """What it has processed."""
        ...

    def pids(self) -> Sequence[int]:
        """The processes that it was started as; they may have started others."""
        ...

    def check(self) -> None:
        """Raises if it has ended before its time."""
        ...


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen at one time.

    Attributes:
        at: seconds, of the monotonic clock.
        done: what was processed.
        cpu: seconds of the contestant's processes.
        broker: CPU seconds of the broker.
    """

    at: float
    done: float
    cpu: float = 0.0
    broker: float = 0.0


@dataclass(frozen=True, slots=True)
class Steady:
    """The steady part of a round.

    Attributes:
        began: when, by the monotonic clock.
        seconds: how long it took.
        cpu: seconds of the contestant's processes meanwhile.
        broker: CPU seconds of the broker.
        share: of the round that it is.
    """

    began: float
    seconds: float
    cpu: float
    broker: float
    share: float = LAST - FIRST


def steady(looks: Sequence[Look], total: int, first: float = FIRST, last: float = LAST) -> Steady:
    """What happened between two shares of a round.

    Args:
        looks: at the round.
        total: what there was to process.
        first, last: the shares.

    Raises:
        BenchmarkError: if no time passed meanwhile.
    """
    begin, end = _between(looks, first * total), _between(looks, last * total)
    if end.at - begin.at <= 0:
        raise BenchmarkError("a round was over before it was seen: take more --lines")
    return Steady(begin.at, end.at - begin.at, end.cpu - begin.cpu, end.broker - begin.broker, last - first)


def _between(looks: Sequence[Look], done: float) -> Look:
    """What would have been seen when so much was done."""
    for before, after in pairwise(looks):
        if before.done <= done <= after.done and after.done > before.done:
            share = (done - before.done) / (after.done - before.done)

            def mixed(one: float, other: float, share: float = share) -> float:
                return one + share * (other - one)

            return Look(
                mixed(before.at, after.at), done, mixed(before.cpu, after.cpu), mixed(before.broker, after.broker)
            )
    raise BenchmarkError("a round was over before it was seen: take more --lines")


def watch(run: Run, broker: int, patience: float = 120.0) -> list[Look]:
    """Watches until all is done.

    Args:
        run: what is watched.
        broker: its process id.
        patience: seconds without progress after which it is given up.

    Returns:
        A look for each time that something was done, and one before the first.

    Raises:
        BenchmarkError: if it ends before, or nothing goes on.
    """
    looks: list[Look] = []
    pids: list[int] = []
    moved = time.monotonic()
    while True:
        done = run.done()
        if not pids and done:
            pids = descendants(run.pids())
            # What was spent before it was known who spends it counts as start-up.
            looks[:] = [Look(each.at, each.done, _cpu(pids), cpu_seconds(broker)) for each in looks]
        now = time.monotonic()
        look = Look(now, done, _cpu(pids), cpu_seconds(broker))
        if not done:
            looks[:] = [look]
        elif not looks or done > looks[-1].done:
            looks.append(look)
            moved = now
        if done >= run.total:
            return looks
        run.check()
        if now - moved > patience:
            raise BenchmarkError(f"{done:,} of {run.total:,} are done, and nothing was for {patience:g} s")
        time.sleep(_LOOK_SECONDS)


def _cpu(pids: Sequence[int]) -> float:
    return sum(map(cpu_seconds, pids))


def log_bytes(directory: Path, of: str) -> dict[str, int]:
    """Topic → bytes of its log, of all topics with a word in their name.

    Args:
        directory: of the broker.
        of: the word.
    """
    found: dict[str, int] = {}
    for segment in directory.rglob("*.log"):
        topic = segment.parent.name.rpartition("-")[0]
        if of in topic and not segment.parent.name.endswith("-delete"):
            found[topic] = found.get(topic, 0) + segment.stat().st_size
    return found
