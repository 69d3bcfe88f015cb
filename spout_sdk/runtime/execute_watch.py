"""Watches the calls of `execute` of one component that take long, in a thread beside that of its loop.

It reads what the loop publishes for each call, and calls no method of the bolt. After a third of the smallest message
timeout it keeps the trees alive that wait for the component; after the timeout it warns; after `max.poll.interval.ms`
it ends the process, because nothing can interrupt the call. Until then librdkafka's own thread sends the heartbeats.

It also keeps the trees alive that wait for a paused task, or for a task of an `AsyncBolt` whose coroutines take as long
and leave no room for other inputs.
"""

import logging
import os
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn, Self

from kafka_clients.repeated_lines import EACH, get_logger
from spout_sdk.bolts import executor
from spout_sdk.bolts.running_call import RunningCall
from spout_sdk.records import Clock
from spout_sdk.runtime.periodic_resets import PeriodicResets, Resets
from tuple_tree.manifest import Manifest
from tuple_tree.timing import EXECUTING

logger = get_logger("spout_sdk.execute_watch")

MAX_POLL: Final = "max.poll.interval.ms"
LONGEST_EXECUTE_MS: Final = 1_800_000
"""`max.poll.interval.ms` of a bolt's process unless it is set: how long one `execute` may take."""

LOOK_SECONDS: Final = 0.5
_JOIN_SECONDS: Final = 5.0  # how long `__exit__` waits for the thread
_REPORT_SECONDS: Final = 2.0  # calls that take longer are shown while they run
_SDK: Final = f"{Path(__file__).parents[1]}{os.sep}"
_MOST_ROOTS: Final = 3  # in a warning


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits in seconds.

    Attributes:
        timeout: the smallest message timeout of the spouts upstream.
        tree_age: the largest age of a tree.
        execute: how long one `execute` may take.
    """

    timeout: float
    tree_age: float
    execute: float

    @classmethod
    def of(cls, manifest: Manifest, bolt: str, kafka: Mapping[str, Any]) -> "Limits":
        spouts = manifest.spouts_upstream(bolt) or manifest.spouts
        timeout_ms = min((spout.timeout_ms for spout in spouts), default=manifest.max_tree_age_ms)
        execute_ms = float(kafka.get(MAX_POLL, LONGEST_EXECUTE_MS))
        return cls(timeout_ms / 1000, manifest.max_tree_age_ms / 1000, execute_ms / 1000)


class ExecuteWatch:
    """Watches the calls of one process: in a `with` block, twice a second those of the thread that entered the block.

    Args:
        tasks: the tasks of the process, by partition; another thread changes them.
        resets: keeps trees alive; None without acking.
        report: called while a long call runs, with the seconds since it began, and its position.
        end: ends the process; called with the reason.
    """

    def __init__(
        self,
        component: str,
        limits: Limits,
        tasks: Mapping[int, Any],
        resets: Resets | None,
        report: Callable[[float, str], None],
        end: Callable[[str], object],
        clock: Clock,
    ) -> None:
        self._component = component
        self._limits = limits
        self._tasks = tasks
        self._has_trees = resets is not None
        self._kept = PeriodicResets(resets, limits.timeout)
        self._report = report
        self._end = end
        self._clock = clock
        self._watched = threading.get_ident()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="execute-watch", daemon=True)
        self._since: float | None = None  # when the watched call began
        self._warn_after = 0.0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join(_JOIN_SECONDS)

    def _run(self) -> None:
        while not self._stopped.wait(LOOK_SECONDS):
            try:
                self.look()
            except Exception as error:
                logger.warning("%s: %s", self._component, error, exc_info=error)
        self._kept.close()

    def look(self) -> None:
        """Checks the call that runs now, and the tasks that take no inputs between calls."""
        tasks, now = dict(list(self._tasks.items())), self._clock()
        task, call = next(
            ((task, call) for task, each in tasks.items() if (call := each.running) is not None), (-1, None)
        )
        if call is None or call.since != self._since:
            self._since = None if call is None else call.since
            self._warn_after = self._limits.timeout
        seconds = 0.0 if call is None else now - call.since
        is_kept = self._kept.every <= seconds < self._limits.tree_age
        # Tasks that take no inputs hold up neither the loop nor the group.
        self._kept.keep(tasks if is_kept else self._kept.waited_for(tasks, now), now)
        if call is not None and seconds >= min(_REPORT_SECONDS, self._kept.every):
            self._show(task, call, seconds)

    def _show(self, task: int, call: RunningCall, seconds: float) -> None:
        """Reports a call that takes long, and ends the process if it takes too long."""
        where = f"at {call.position}{self._line()}"
        if seconds >= self._limits.execute:
            self._end(
                f"{self._component}/{task}: one execute ran for {seconds:.0f} s, longer than {MAX_POLL} allows "
                f"({self._limits.execute:.0f} s), {where}. The process ends, and its next one executes the inputs that "
                f"are not acked again. Give what execute waits for a time-out, or raise {MAX_POLL}"
            )
        if seconds >= self._warn_after:
            self._warn(task, call, seconds, where)
        self._report(seconds, f"{EXECUTING}, {where}")

    def _warn(self, task: int, call: RunningCall, seconds: float, where: str) -> None:
        self._warn_after *= 2
        limits = self._limits
        roots = ", ".join(f"{root:016x}" for root in call.roots[:_MOST_ROOTS]) or "none"
        if not self._has_trees:
            trees = ""
        elif seconds < limits.tree_age:
            trees = f" Its trees and those of later tuples are kept alive until max_tree_age ({limits.tree_age:g} s)."
        else:
            trees = f" Its trees have failed at max_tree_age ({limits.tree_age:g} s) and are replayed: raise the limit."
        logger.warning(
            "%s/%d: one execute has been running for %.0f s, longer than the message timeout of %g s, %s, roots %s. "
            "Its process executes nothing else of this component meanwhile.%s Emit smaller pieces of work, wait in an "
            "AsyncBolt, or raise message_timeout; the process ends after %.0f s (%s)",
            *(self._component, task, seconds, limits.timeout, where, roots, trees, limits.execute, MAX_POLL),
            extra=EACH,
        )

    def _line(self) -> str:
        """The line of the user's code that runs, as ` (file:line in function)`; empty if there is none."""
        frame = sys._current_frames().get(self._watched)
        stack = traceback.extract_stack(frame) if frame is not None else []
        called = max((at for at, each in enumerate(stack) if each.filename == executor.__file__), default=len(stack))
        own = [each for each in stack[called + 1 :] if not each.filename.startswith(_SDK)]
        shown = [f"{each.filename}:{each.lineno} in {each.name}" for each in own]
        return f" ({shown[0]})" if shown else ""


def end_process(why: str, code: int = 1) -> NoReturn:
    """Ends this process at once, with `why` as the last line of its log."""
    logger.critical("%s", why)
    logging.shutdown()
    os._exit(code)
