"""Clicks for each page and minute, on a broker: exact after deployments, kills, an outage, and a backlog of an hour."""

import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import SIGKILL
from typing import Any, Final

import pytest
from confluent_kafka.admin import NewTopic

from acker_cli.processes.acker_pool import AckerPool
from examples.clicks import DOWN, PARTITIONS, Clicks, Results, wrong
from kafka_clients.access import ACKER
from kafka_clients.catalogue import Catalogue
from spout_sdk.runtime import TopologyRunner
from spout_sdk.windows.late_tuples import LATE
from tests.kafka.sdk_rig import Source, Use
from tests.kafka.topologies import minutes_of
from tests.topics import create_topics
from tests.waiting import eventually
from tuple_tree.names import dead_letters_topic, results_topic

pytestmark = pytest.mark.exhaustive

BACKLOG: Final = 150_000
DEPLOYMENTS: Final = 10
OUTAGE_SECONDS: Final = 20.0


class Run:
    """The topology in processes, and the topics that it reads and writes.

    Attributes:
        late: late tuples of all deployments that have ended.
        kills: by component.
    """

    def __init__(self, source: Source, directory: Path, stores: Path | None) -> None:
        self.source, self._down, self._stores = source, directory / "down", stores
        create_topics(source.bootstrap, [NewTopic(minutes_of(source.name), PARTITIONS, 1)])
        self.clicks = Clicks(source.bootstrap, source.source)
        self.late = 0

    @contextmanager
    def deployment(self) -> Iterator[None]:
        """Starts all processes, and stops them."""
        self.ackers = AckerPool(self.source.name, self.source.kafka, 2, log_level="error")
        options: dict[str, Any] = {"environment": {DOWN: str(self._down)}, "state_directory": self._stores}
        runner = TopologyRunner(self.source.reference, self.source.kafka, 2, **options)
        with self.ackers, runner:
            self.runner = runner
            yield
            runner.stop()
            assert runner.wait(0)
            self.late += runner.stats()["per-minute"].counters.get(LATE, 0)

    def outage(self) -> None:
        """The service is down for a while."""
        self._down.touch()
        until = time.monotonic() + OUTAGE_SECONDS
        eventually(lambda: time.monotonic() > until, "the end of the outage")
        self._down.unlink()

    def kill(self, component: str) -> None:
        """Kills a process when it works."""
        os.kill(random.choice(eventually(lambda: self._pids(component), f"a process of {component}")), SIGKILL)

    def flows(self, clicks: int = 2_000) -> None:
        """Writes clicks, since the backlog may be done, and waits until as many more trees complete."""
        acked = self.acked
        self.clicks.write(clicks)
        eventually(lambda: self.acked >= acked + clicks, f"{clicks} more trees acked", 120)

    def _pids(self, component: str) -> list[int]:
        return self.ackers.pids() if component == ACKER else self.runner.pids()[component]

    @property
    def acked(self) -> int:
        return self.runner.stats()["clicks"].acked


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("topology", "on_disk"), [("clicks", False), ("clicks_exactly_once", True)])
def test_every_minute_of_an_hour_is_exact_after_deployments_kills_and_an_outage(
    use: Use, tmp_path: Path, topology: str, on_disk: bool
) -> None:
    source = use(topology, PARTITIONS)
    Catalogue(source.bootstrap).publish(source.manifest)
    run = Run(source, tmp_path, tmp_path / "stores" if on_disk else None)
    run.clicks.write(BACKLOG)
    kinds = [*(each.name for each in source.manifest.components), ACKER]
    for number in range(DEPLOYMENTS):
        with run.deployment():
            run.flows()
            for component in kinds[number % 2 :: 2]:
                run.kill(component)
                run.flows(200)
            if number == 3:
                run.outage()
            run.flows()
    run.clicks.end()
    wanted = run.clicks.closed()
    published = Results(source.bootstrap, minutes_of(source.name))
    with run.deployment():

        def closed() -> bool:
            published.look()
            return published.minutes.keys() >= wanted.keys()

        eventually(closed, "all minutes", 600)
    assert run.late == 0
    assert wrong(wanted, published.minutes) == []
    assert published.changed == set()
    if topology == "clicks_exactly_once":
        assert set(published.times.values()) == {1}
    made = Results(source.bootstrap, results_topic(source.name, "per-minute"))
    eventually(lambda: made.look() or made.minutes.keys() >= wanted.keys(), "the results")  # type: ignore[func-returns-value]
    assert wrong(wanted, made.minutes) == []
    assert set(made.times.values()) == {1}, "they are written in the transactions of the state"
    assert len(source.records(dead_letters_topic(source.name))) >= run.clicks.malformed
    published.close()
    made.close()
