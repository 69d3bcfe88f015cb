"""The verdict on a topology on a real Kafka, as `acker top` and the dashboard have it.

None in a healthy minute, and within 30 s the right one first when the acker has ended. All incidents are staged in
`tests/unit/inspection/health/test_incidents.py`.
"""

import threading
import time
from contextlib import closing
from typing import Final

import pytest

from inspection.health.findings import Finding
from inspection.observer import Observer
from kafka_clients.catalogue import Catalogue
from tests.kafka.sdk_rig import InThreads, Source, Use, acking
from tests.waiting import eventually

pytestmark = pytest.mark.exhaustive

DETECTED_SECONDS: Final = 30.0
HEALTHY_SECONDS: Final = 76.0
"""A minute, and before it the time from which on a process counts as started, and lags are known."""


def feed(source: Source, ended: threading.Event) -> None:
    """Fifty messages a second."""
    while not ended.wait(0.1):
        source.feed(["order"] * 5)


def findings(observer: Observer) -> list[Finding]:
    observer.follow(0.5)
    return observer.findings(observer.snapshot())


def test_a_healthy_topology_has_no_finding_and_an_acker_that_ends_is_the_first(use: Use) -> None:
    source, ended = use("three_steps", 2), threading.Event()
    Catalogue(source.bootstrap).publish(source.manifest)
    feeding = threading.Thread(target=feed, args=(source, ended), daemon=True)
    feeding.start()
    running = InThreads(source.topology, dict.fromkeys(("lines", "copy", "see"), source.bootstrap))
    try:
        with acking(source):
            eventually(lambda: running.stats["lines"].acked, "messages to be acked")
            observer = Observer(source.bootstrap, source.manifest)
            observer.open()
            until = time.monotonic() + HEALTHY_SECONDS
            while time.monotonic() < until:
                assert findings(observer) == []
        Catalogue(source.bootstrap).publish(source.manifest)
        others: list[Finding] = []

        def is_found() -> bool:
            found = findings(observer)
            others.extend(each for each in found[:1] if each.check != "ackers")
            return bool(found) and (found[0].check, found[0].component) == ("ackers", None)

        with closing(observer):
            eventually(is_found, "that there is no acker", DETECTED_SECONDS)
        assert {each.component for each in others} <= {None}, others
    finally:
        ended.set()
        feeding.join()
        running.stop()
        Catalogue(source.bootstrap).withdraw(source.name)
