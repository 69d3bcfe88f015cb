"""A topology of `guarantee_topologies` with running processes, whose bolt `transform` is killed now and then."""

import random
import signal
import threading
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from spout_sdk import Exit, Stats, TopologyRunner, load_topology
from tests.kafka.guarantee_topologies import ARMED, COPIES, DIRECTORY, ENOUGH, NAME, SIGNAL, STEPS
from tests.kafka.sdk_rig import Cluster, value
from tests.packs import tuples_in
from tests.waiting import eventually

MODULE: Final = "tests.kafka.guarantee_topologies"
GARBAGE: Final = b"\xff"
TRANSACTION_MS: Final = 60_000
"""How long a transaction may be open unless a test is about that, even on a busy machine."""

Output = tuple[int, int]


class Run:
    """A topology with running processes, whose bolt `transform` is killed now and then."""

    def __init__(self, cluster: Cluster, directory: Path, reference: str, processes: int) -> None:
        self.cluster = cluster
        self.directory = directory
        self.name = cluster.manifest.topology
        self.exits: list[Exit] = []
        self.runner = TopologyRunner(reference, cluster.kafka, {"transform": processes}, on_exit=self.exits.append)

    @property
    def spout(self) -> Stats:
        return self.runner.stats()["numbers"]

    def arm(self, step: str) -> None:
        self.directory.joinpath(ARMED).write_text(step)

    def stop_at(self, step: str) -> int:
        """Waits until a process has stopped itself, as if it hung, at a step; it does not end."""
        self.directory.joinpath(SIGNAL).write_text(str(int(signal.SIGSTOP)))
        self.arm(step)
        (taken,) = eventually(lambda: list(self.directory.glob("taken-*")), f"a process stopped at step {step}", 90)
        return int(taken.name.removeprefix("taken-"))

    def kill_at(self, step: str) -> None:
        """Waits until a process has killed itself at a step."""
        before = len(self.exits)
        self.arm(step)
        eventually(lambda: len(self.exits) > before, f"a process killed at step {step}", 90)
        assert {exit_.code for exit_ in self.exits} == {-signal.SIGKILL}, self.exits

    def kill_at_each_step(self) -> None:
        """In random order, each with an unreadable record in the inbox."""
        self.flows()
        for step in random.sample(STEPS, len(STEPS)):
            self.spoil()
            self.kill_at(step)

    def kill(self) -> None:
        """Kills a process at any moment."""
        before = len(self.exits)
        eventually(lambda: self.runner.pids()["transform"], "a process to kill")
        threading.Event().wait(random.uniform(0, 0.3))
        self.runner.kill("transform")
        eventually(lambda: len(self.exits) > before, "the process gone")

    def flows(self) -> None:
        """Waits until trees complete, after earlier kills."""
        acked = self.spout.acked
        eventually(lambda: self.spout.acked > acked + 50, "more trees acked", 90)

    def produces(self) -> None:
        """Waits for outputs, after earlier kills."""
        before = self.outputs().total()
        eventually(lambda: self.outputs().total() > before + 100, "more outputs", 90)

    def enough(self) -> None:
        self.directory.joinpath(ENOUGH).touch()

    def finish(self) -> None:
        """Waits until every tree has an outcome."""
        self.enough()
        eventually(
            lambda: self.spout.emitted and self.spout.acked + sum(self.spout.failed.values()) == self.spout.emitted,
            "an outcome for each message",
            180,
        )

    def spoil(self) -> None:
        """Appends an unreadable record to the inbox."""
        self.cluster.produce(f"{self.name}.tuples.transform", 0, GARBAGE, [("source", b"numbers/default")])

    def dead_letters(self) -> int:
        return len(self.cluster.records(f"{self.name}.dead-letters"))

    def inputs(self) -> list[int]:
        return [number for _, number in self.inputs_of_tasks()]

    def inputs_of_tasks(self) -> list[tuple[int, int]]:
        """Task and number of each."""
        inbox = self.cluster.records(f"{self.name}.tuples.transform")
        readable = [record for record in inbox if value(record) != GARBAGE]
        stream = self.cluster.manifest.stream("numbers", "default")
        return [(each.partition, each.values[0]) for each in tuples_in(readable, stream)]

    def outputs(self) -> Counter[Output]:
        inbox = self.cluster.records(f"{self.name}.tuples.sink")
        return Counter(each.values for each in tuples_in(inbox, self.cluster.manifest.stream("transform", "default")))

    def expected(self) -> Counter[Output]:
        return Counter((number, copy) for number in self.inputs() for copy in range(COPIES))


Start = Callable[..., Run]
"""Makes a `Run` of a topology, with its topics."""


def starter(bootstrap_servers: str, monkeypatch: pytest.MonkeyPatch, directory: Path) -> Start:
    def start(topology: str, processes: int = 2, servers: str = bootstrap_servers, **kafka: object) -> Run:
        monkeypatch.setenv(NAME, f"{topology.replace('_', '-')}-{uuid.uuid4().hex[:8]}")
        monkeypatch.setenv(DIRECTORY, str(directory))
        reference = f"{MODULE}:{topology}"
        cluster = Cluster(servers, load_topology(reference).manifest)
        cluster.kafka.update({"transaction.timeout.ms": TRANSACTION_MS, **kafka})
        cluster.create_topics()
        return Run(cluster, directory, reference, processes)

    return start
