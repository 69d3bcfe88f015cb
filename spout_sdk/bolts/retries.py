"""The retries of a task: tuples that are executed again later, and stay open until then."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf
from typing import Any, Final, Protocol

import numpy as np

from spout_sdk.api.topology import BoltOptions
from spout_sdk.api.tuples import Tuple
from spout_sdk.emitting.task import Task
from spout_sdk.statistics.stats import NOT_FAILED, MostFailed
from tuple_tree.errors import WireError
from tuple_tree.process_stats import LARGEST_ERROR

MOST_WAITING: Final = 10_000
"""Tuples of a task that wait for a retry, at most: further tuples that raise are failed."""

_ROUNDING_SECONDS: Final = 1e-6  # largest rounding error of a time plus a delay


class RetriedInputs(Protocol):
    """The part of a `Settlement` that `Retries` uses."""

    def is_open(self, offset: int) -> bool: ...
    def fail(self, tuple_: Tuple, message: str) -> None: ...
    def send_dead_letter(self, tuple_: Tuple, error: WireError) -> None: ...
    def withdraw(self, tuple_: Tuple) -> None: ...
    def reset_timeout(self, tuple_: Tuple) -> None: ...


@dataclass(slots=True, eq=False)
class Retry:
    """A tuple that is executed again.

    Attributes:
        tuple: the tuple; for an `ArrowBolt` it has only the place.
        rows: the `ArrowInput` that it is a row of; None for other bolts.
        failures: how often it has failed; 0 if it was not executed.
        number: the number of its entry in the queue; 0 while it does not wait.
        since: when it first failed or was deferred.
        why: its last failure.
    """

    tuple: Tuple
    rows: Any = None
    failures: int = 0
    number: int = 0
    since: float = 0.0
    why: str = ""

    @property
    def row(self) -> int:
        """Its place in `rows`."""
        return int(np.searchsorted(self.rows.indices, self.tuple.index))

    @property
    def is_alone(self) -> bool:
        """Whether it is executed alone: it has failed twice, and another tuple of the call may have been the cause."""
        return self.failures > 1


class Retries:
    """Tuples of a task that wait for a retry, each until a time; they are neither acked nor failed.

    They are kept only in memory: after a crash or a stop they are read again, as other open inputs are.

    Args:
        task: the bolt's.
        settlement: the outcomes of its inputs.
    """

    def __init__(self, task: Task, settlement: RetriedInputs) -> None:
        manifest = task.topology.manifest
        options = task.topology.options.get(task.context.component, BoltOptions())
        self._component = task.context.component
        self._policy, self._on_exhausted = options.retry, options.on_exhausted
        # At most once: an input that was executed is not executed again.
        self.executes_again = manifest.acking
        self._settlement = settlement
        self._clock = task.environment.clock
        self._counters = task.environment.counters
        self._load = self._counters.load(task.context.task)
        self._known: dict[tuple[int, int], Retry] = {}  # by offset and index, until they are settled
        self._queue: list[tuple[float, int, Retry]] = []  # a heap: when one is due, and its number
        self._numbers = 0
        slowest_ms = max((spout.timeout_ms for spout in manifest.spouts), default=0)
        self._longest = (manifest.max_tree_age_ms + slowest_ms) / 1000
        self.waiting = 0

    def retry(self, tuple_: Tuple, why: str, delay: float | None = None, rows: Any = None) -> None:
        """Counts a failure of a tuple, and executes it again later or gives it up.

        Args:
            tuple_: a tuple that is not settled.
            why: the reason of the failure.
            delay: seconds until then; without it the delay of the policy.
            rows: see `Retry`.
        """
        if not self._settlement.is_open(tuple_.offset):
            return  # a tick, or expired: its trees have failed
        if not self.executes_again:
            self._settlement.fail(tuple_, f"{why}; at_most_once executes no tuple twice")
            return
        known = self._known.get((tuple_.offset, tuple_.index))
        if known is not None and known.number:
            # The bolt has asked for a retry, and then again or raised: that is one failure. A record that it has
            # written in between does not ack the tuple.
            self._settlement.withdraw(tuple_)
            if delay is not None:
                self._wait(known, self._clock() + delay)
            return
        failures = 1 + (known.failures if known is not None else 0)
        by_policy = self._policy.delay(failures)
        if by_policy is None:
            # Within the detail of a message's dead letter, which counts attempts of the message.
            several = f"{failures} executions of the tuple failed, the last one with {why}"
            self._give_up(tuple_, several if failures > 1 else f"the execution of the tuple failed with {why}")
        elif known is None and len(self._known) >= MOST_WAITING:
            self._settlement.fail(tuple_, f"{why}; {MOST_WAITING:,} tuples of its task wait for a retry already")
        else:
            self._add(tuple_, failures, self._clock() + (by_policy if delay is None else delay), rows, why)

    def keep(self, tuple_: Tuple, until: float, rows: Any = None) -> None:
        """Executes a tuple again at `until`, without counting the failure, because the task pauses."""
        if self._settlement.is_open(tuple_.offset):
            known = self._known.get((tuple_.offset, tuple_.index))
            self._add(tuple_, known.failures if known is not None else 1, until, rows)

    def defer(self, tuples: Sequence[Tuple]) -> None:
        """Queues tuples of a call that were not executed, because the task pauses: they come first afterwards."""
        for tuple_ in tuples:
            if self._settlement.is_open(tuple_.offset):
                self._add(tuple_, 0, -inf)
        self._counters.executed -= len(tuples)
        self._load.executed -= len(tuples)

    def failures_of(self, tuple_: Tuple) -> int:
        """How often a tuple that is executed again has failed before."""
        known = self._known.get((tuple_.offset, tuple_.index))
        return 0 if known is None else known.failures

    def has_due(self, now: float) -> bool:
        return bool(self._queue) and self._queue[0][0] <= now + _ROUNDING_SECONDS

    @property
    def has_deferred(self) -> bool:
        """Whether a deferred tuple waits."""
        return bool(self._queue) and self._queue[0][0] == -inf

    def take(self, now: float, most: int) -> list[Retry]:
        """Removes and returns retries that are due, the earliest first."""
        taken: list[Retry] = []
        while self.has_due(now) and len(taken) < most:
            _, number, retry = heappop(self._queue)
            if retry.number != number:
                continue
            retry.number = 0
            self.waiting -= 1
            if self._is_over(retry):
                del self._known[retry.tuple.offset, retry.tuple.index]
            else:
                taken.append(retry)
        self._count(sum(1 for retry in taken if retry.failures))
        return taken

    def put_back(self, retries: Sequence[Retry]) -> None:
        """Queues retries again that were taken and not executed, before all others."""
        for retry in retries:
            self._count(-bool(retry.failures))
            self._wait(retry, -inf if not retry.failures else 0.0)

    def executed(self, retries: Sequence[Retry]) -> None:
        """Forgets settled tuples."""
        for retry in retries:
            if self._is_over(retry):
                self._known.pop((retry.tuple.offset, retry.tuple.index), None)

    def look(self, now: float) -> None:
        """Restarts the clocks of the trees of tuples that wait; forgets tuples that no longer wait.

        These were acked or failed meanwhile, or have expired. Where inputs do not expire, a tuple that has been open
        for longer than a tree may be is failed: its message was replayed.
        """
        for retry in [*self._known.values()]:
            if self._is_over(retry):
                self._forget(retry)
            elif retry.number and now - retry.since >= self._longest:
                self._forget(retry)
                self._settlement.fail(retry.tuple, "its trees are older than max_tree_age, so it is not retried")
            elif retry.number:
                self._settlement.reset_timeout(retry.tuple)

    def most_failed(self, now: float) -> MostFailed:
        """The open tuple that has failed most often; any thread may call it."""
        worst = max(list(self._known.values()), key=lambda retry: retry.failures, default=None)
        if worst is None or not worst.failures or self._is_over(worst):
            return NOT_FAILED
        place = f"{worst.tuple.topic}[{worst.tuple.partition}] offset {worst.tuple.offset}"
        since = round(now - worst.since, 1)
        return MostFailed(place, worst.failures, worst.why[:LARGEST_ERROR], self._component, since)

    def _count(self, retried: int) -> None:
        self._counters.retried += retried
        self._load.retried += retried

    def _is_over(self, retry: Retry) -> bool:
        return retry.tuple.settled or not self._settlement.is_open(retry.tuple.offset)

    def _add(self, tuple_: Tuple, failures: int, due: float, rows: Any = None, why: str = "") -> None:
        self._settlement.withdraw(tuple_)
        at = tuple_.offset, tuple_.index
        if (known := self._known.get(at)) is None:
            self._known[at] = known = Retry(tuple_, since=self._clock())
        known.tuple, known.rows, known.failures, known.why = tuple_, rows, failures, why or known.why
        self._wait(known, due)
        # A tuple that has waited long for its execution would time out before the next reset of all.
        self._settlement.reset_timeout(tuple_)

    def _wait(self, retry: Retry, due: float) -> None:
        self.waiting += not retry.number
        self._numbers += 1
        retry.number = self._numbers
        heappush(self._queue, (due, retry.number, retry))

    def _forget(self, retry: Retry) -> None:
        self.waiting -= bool(retry.number)
        retry.number = 0
        del self._known[retry.tuple.offset, retry.tuple.index]

    def _give_up(self, tuple_: Tuple, why: str) -> None:
        self._known.pop((tuple_.offset, tuple_.index), None)
        if self._on_exhausted == "dead_letter":
            self._settlement.send_dead_letter(tuple_, WireError("exception", why))
        else:
            self._settlement.fail(tuple_, why)


def together(retries: Sequence[Retry]) -> Iterator[list[Retry]]:
    """Groups retries, in order, by the calls of a bolt that takes several tuples in a call."""
    call: list[Retry] = []
    for retry in retries:
        if call and (retry.is_alone or call[-1].is_alone or not _follows(call[-1], retry)):
            yield call
            call = []
        call.append(retry)
    if call:
        yield call


def _follows(one: Retry, other: Retry) -> bool:
    """Whether `other` can follow `one` in a call: rows have to be consecutive."""
    return other.rows is None or (one.rows is other.rows and other.row == one.row + 1)
