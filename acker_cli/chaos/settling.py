"""Waits after the faults until every message is done and nothing is open."""

import getpass
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any, Final

from inspection.drain import holding_up, left_in_bolts, left_in_spouts
from inspection.observer import Observer
from kafka_clients.catalogue import Catalogue
from tuple_tree.control import Control
from tuple_tree.manifest import Manifest

SETTLE_SECONDS: Final = 60.0
_TIMEOUT_MARGIN: Final = 30.0
_LOOK_SECONDS: Final = 0.25

Wait = Callable[[float], object]


def settle_seconds(manifest: Manifest) -> float:
    """A minute; where trees time out later than after half a minute, half a minute more than that."""
    slowest = max((spout.timeout_ms / 1000 for spout in manifest.spouts), default=0.0)
    return max(SETTLE_SECONDS, slowest + _TIMEOUT_MARGIN)


@contextmanager
def draining(kafka: Mapping[str, Any], topology: str) -> Iterator[None]:
    """Requests that a topology drains; resumes it at the end."""
    catalogue, by = Catalogue(kafka), f"acker chaos, {getpass.getuser()}@{socket.gethostname()}"
    catalogue.set_control(topology, Control("draining", by))
    try:
        yield
    finally:
        catalogue.set_control(topology, Control("running", by))


def await_done(not_done: Callable[[], list[str]], deadline: float, wait: Wait) -> list[str]:
    """Waits until all messages are done; returns what is not at the deadline, a line each."""
    while (left := not_done()) and time.monotonic() < deadline:
        wait(_LOOK_SECONDS)
    return left


def await_drained(kafka: Mapping[str, Any], manifest: Manifest, deadline: float, wait: Wait) -> list[str]:
    """Waits until a topology that drains has nothing open; returns what is open at the deadline, a line each."""
    with closing(Observer(kafka, manifest)) as seen:
        seen.read_statistics()
        while (left := _left(seen)) and time.monotonic() < deadline:
            wait(0.0)
            seen.follow(_LOOK_SECONDS)
        return left


def _left(seen: Observer) -> list[str]:
    snapshot = seen.snapshot()
    if left := left_in_spouts(snapshot, "draining"):
        return left + holding_up(snapshot)
    if trees := sum(each["pending"] or 0 for each in snapshot["acker"]):
        return [f"ackers: {trees:,} trees open", *holding_up(snapshot)]
    seen.read_lags()  # those from before may be older than the last tree
    return [seen.problem] if seen.problem else left_in_bolts(seen.snapshot())
