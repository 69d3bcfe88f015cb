"""Workarounds for bugs of librdkafka.

A call that is running when a broker fails may ignore its timeout
(https://github.com/confluentinc/librdkafka/issues/5456, https://github.com/confluentinc/librdkafka/issues/5511), and
nothing can interrupt it. `within` leaves it to a thread, with its client. `bounded` ends the process, and its
supervisor starts it again. Its state is in Kafka, where the next process continues.

A client forgets brokers that are missing in the metadata it is given. A broker that has just started may give metadata
without any, itself included; the client then forgets all, and begins again with its bootstrap servers. A second such
answer at the wrong moment takes that back, and the client is left without brokers for good, and does not report it:
it happens where the only broker, or all of them, start again (https://github.com/confluentinc/librdkafka/issues/5301).
A producer fails to deliver then. A consumer would wait for ever; its statistics show it to a `BrokerMonitor`.

`AdminClient.describe_cluster` ends the process if the only broker is fenced, which happens to one that gets no CPU for
its session timeout: metadata without brokers and topics is no result, and an assertion fails; and the id of the cluster
is copied up to a zero byte, which may lie beyond the response (https://github.com/DataDog/integrations-core/pull/24437).
Nothing here calls it. Nor `list_consumer_group_offsets`: an answer of NOT_COORDINATOR, which a broker gives after it
was fenced, is a segmentation fault (https://github.com/confluentinc/librdkafka/issues/5040).

A client that calls back in a thread of its own, as an `AdminClient` does, must not be destroyed in that thread:
librdkafka then aborts the whole process. But Python collects garbage in whatever thread happens to allocate. A client
that asked something, and then became part of a cycle (an exception's traceback is enough), may be found by the very
call that brings its answer. A `forgettable` client is ended in a thread of this module.
"""

import json
import logging
import math
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from queue import SimpleQueue
from typing import Any, Final, TypeVar

from kafka_clients.background import in_thread
from kafka_clients.repeated_lines import get_logger

logger = get_logger(__name__)
HANG_SECONDS: Final = 60.0  # after how long a call without a timeout of its own counts as hanging, in seconds
_CHECK_SECONDS: Final = 0.5
_running: Final[set["_Call"]] = set()


@dataclass(eq=False)
class _Call:
    seconds: float
    what: str
    checks: int  # how many are left; time is counted in checks, so that it stops while the process is stopped
    cause: str


@contextmanager
def bounded(seconds: float, what: str) -> Iterator[None]:
    """Ends the process with code 1 if its body takes longer; `what` names the call in the log."""
    _watch()
    error = sys.exc_info()[1]
    cause = "" if error is None else f". Before, the process was to end because of {error!r}"
    call = _Call(seconds, what, math.ceil(seconds / _CHECK_SECONDS) + 1, cause)
    _running.add(call)
    try:
        yield
    finally:
        _running.discard(call)


def within(seconds: float, call: Callable[[], None]) -> None:
    """Makes a call in a thread of its own, which keeps it and its client if it hangs.

    Raises:
        TimeoutError: if it takes longer; it may still end, at any time.
    """
    in_thread(call, "may-hang").result(seconds)


@cache
def _watch() -> None:
    threading.Thread(target=_end_late, name="bounded-calls", daemon=True).start()


def _end_late() -> None:
    pause = threading.Event()
    while not pause.wait(_CHECK_SECONDS):
        for call in list(_running):
            call.checks -= 1
            if not call.checks:
                logger.critical(
                    "%s has not returned for %.0f s: the client hangs, and this process ends. Nothing is lost: start "
                    "it again, if its supervisor does not%s",
                    *(call.what, call.seconds, call.cause),
                )
                logging.shutdown()
                os._exit(1)


LOST: Final = (
    "its client has lost all brokers, as librdkafka may when all of them start again, and would wait for ever. Nothing "
    "is lost: start it again"
)

STATISTICS_MS: Final = 5_000
_SURE: Final = 2  # of them: between forgetting all and beginning again there is a moment without any broker
_NO_BROKERS: Final = ("logical", "internal")  # sources of entries that are not brokers, such as the coordinator's role


class BrokerMonitor:
    """Whether the metadata of one client, which has to be polled, still have a broker, reachable or not.

    Attributes:
        unread: topic and partition → records that wait to be read, as far as it knows.
        unused: the same of a partition that is paused, whose fetched records the client has dropped; those behind the
            last record that was read, and transaction markers.
    """

    def __init__(self, statistics_ms: int = STATISTICS_MS) -> None:
        self._statistics_ms = statistics_ms
        self._without = 0
        self.unread: dict[tuple[str, int], int] = {}
        self.unused: dict[tuple[str, int], int] = {}

    @property
    def settings(self) -> dict[str, Any]:
        return {"statistics.interval.ms": self._statistics_ms, "stats_cb": self.on_stats}

    @property
    def lost(self) -> bool:
        return self._without * self._statistics_ms >= _SURE * STATISTICS_MS

    def on_stats(self, statistics: str) -> None:
        values = json.loads(statistics)
        known = [broker for broker in values["brokers"].values() if broker["source"] not in _NO_BROKERS]
        self._without = 0 if known else self._without + 1
        unread, unused = {}, {}
        for name, topic in values.get("topics", {}).items():
            for part in topic["partitions"].values():
                if part["fetch_state"] == "active":
                    place, end = (name, part["partition"]), part["ls_offset"]
                    # By what it fetches next, not by what was read last: only markers may follow that.
                    unread[place] = part["fetchq_cnt"] + (max(0, end - at) if (at := part["next_offset"]) >= 0 else 0)
                    unused[place] = max(0, end - at) if (at := part["app_offset"]) >= 0 else 0
        # Another thread may read them.
        self.unread, self.unused = unread, unused


T = TypeVar("T")

# To put into it is safe wherever a finalizer may run.
_forgotten: Final[SimpleQueue[Any]] = SimpleQueue()
_kinds: Final[dict[type[Any], type[Any]]] = {}


def forgettable(kind: type[T]) -> type[T]:
    """A subclass of a client whose objects are ended in a thread of this module once they are garbage.

    `kind` has `__exit__`, which ends it; requests that have no answer yet may be pending.
    """
    if kind not in _kinds:
        _kinds[kind] = type(kind.__name__, (_Forgettable, kind), {})
    return _kinds[kind]


class _Forgettable:
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _end_in_background()

    def __del__(self, is_finalizing: Any = sys.is_finalizing, put: Any = _forgotten.put) -> None:
        # At the end of the process only its main thread is left, which may end it. The arguments are kept here, because
        # this module may be gone by then.
        if not is_finalizing():
            put(self)


@cache
def _end_in_background() -> None:
    def end_each() -> None:
        while True:
            client = _forgotten.get()
            # One whose settings were refused was never begun.
            with suppress(Exception):
                client.__exit__(None, None, None)
            del client

    threading.Thread(target=end_each, name="forgotten-clients", daemon=True).start()
