"""A topology under faults, with everything that runs for it."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Self

import numpy as np
from confluent_kafka.admin import NewTopic

from acker_cli.chaos.checks import RunCheck
from acker_cli.chaos.settling import await_drained, draining, settle_seconds
from acker_cli.processes.running import RunPlan, TopologyProcesses
from kafka_clients.catalogue import Catalogue
from kafka_clients.log_reader import LogReader
from spout_sdk import KafkaBolt, Topology
from tests.chaos.arena import MESSAGES, Arena
from tests.chaos.brokers import Brokers
from tests.chaos.checks import in_one_transaction
from tests.chaos.components import (
    SOURCE_PARTITIONS,
    directory,
    number_of,
    outcomes_of,
    results_of,
    source_of,
)
from tests.kafka.sdk_rig import Cluster, progress, value
from tests.manifests import apart
from tests.topics import create_topics
from tests.unit.cli.running import descendants, is_alive
from tests.waiting import eventually
from tuple_tree.messages import decode_notice_batch
from tuple_tree.names import component_group, notices_topic, tuples_topic
from tuple_tree.positions import position_of, topic_key

_SPARK: Final = ("spark.sql.shuffle.partitions=2", "spark.ui.enabled=false")
_STOP_SECONDS: Final = 120
_END_SECONDS: Final = 30
"""A clean stop waits for coroutines for 5 s, for deliveries for 10, and some more for the commit."""
_REST_SECONDS: Final = 3.0
_SOME: Final = 50  # effects of a topology at work


class Driver:
    """A component's Spark driver: the command that submits it, started again whenever it has ended."""

    def __init__(self, reference: str, component: str, servers: str, checkpoint: Path) -> None:
        self._line = [
            *(sys.executable, "-m", "acker_cli", "spark", "submit", reference, "--component", component),
            *("--master", "local[2]", "--checkpoint", str(checkpoint), "--bootstrap-servers", servers, "--"),
            *(part for setting in _SPARK for part in ("--conf", setting)),
            *("--driver-memory", "1g"),
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def check(self) -> None:
        """Starts it, if it does not run."""
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(self._line, stdin=subprocess.DEVNULL, start_new_session=True)

    def pids(self) -> list[int]:
        """The command, Spark's Java and Python's workers."""
        assert self._process is not None
        return [*descendants(self._process.pid), self._process.pid]

    def stop(self) -> None:
        """Ends it in order; kills it if that takes too long."""
        if self._process is None:
            return
        pids = self.pids()
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._process.wait()


class NoticesRead:
    """Records the acks and fails of a spout in Spark, which calls no Python: by its notices; for one thread."""

    def __init__(self, target: "Target") -> None:
        kafka, manifest = target.cluster.bootstrap, target.topology.manifest
        topic_id = Catalogue(kafka).topic_id(target.source)
        assert topic_id is not None
        self._key, self._partitions, self._arena = topic_key(topic_id), manifest.ack_partitions, target.arena
        self._reader = LogReader(kafka)
        self._reader.assign({(notices_topic(manifest.topology, "numbers"), 0): 0})

    def read(self) -> None:
        """Reads all that is there."""
        while records := self._reader.poll(0.05):
            for record in records:
                batch = decode_notice_batch(value(record))
                for root in (*batch.acked_roots.tolist(), *batch.marked_roots.tolist()):
                    self._arena.ack(self._number(root), time.time())
                for root in batch.failed_roots.tolist():
                    self._arena.fail(self._number(root))

    def _number(self, root: int) -> int:
        position = position_of(root, self._key, self._partitions)
        return number_of(position.partition, position.offset)


class Target:
    """A topology under faults; as a context manager, all of it runs.

    Args:
        make: the function of `topologies` that builds it.
        brokers: where it runs.

    Attributes:
        components: the components with their own processes.
        in_spark: those of them that run in Spark.
        publishes: whether it has results in a topic.
        check: that of `acker chaos`.
        rejecting: the inboxes that also get records which their bolts reject.
        excused: shape `(MESSAGES,)`, dtype `bool`: with `at_most_once`, messages that a crash may have lost.
    """

    def __init__(self, make: Callable[[], Topology], brokers: Brokers) -> None:
        self.topology = make()
        name, manifest = self.topology.name, self.topology.manifest
        reference = f"{make.__module__}:{make.__name__}"
        self.tracked = manifest.acking
        self.in_spark = [each.name for each in manifest.components if each.external]
        self.has_source = "numbers" in (*self.topology.kafka_sources, *self.in_spark)
        self.source = source_of(name)
        self.publishes = isinstance(self.topology.factory("sink")(), KafkaBolt)
        self.components = [each.name for each in manifest.heads]
        with_inbox = [each.name for each in manifest.bolts if not each.is_chained]
        self.rejecting = [tuples_topic(name, bolt) for bolt in with_inbox if manifest.guarantee == "exactly_once"]
        self.excused = np.zeros(MESSAGES, bool)
        self._at_risk = (0, 0)
        self._rest = (0, 0.0)
        self.arena = Arena(directory() / f"{name}.arena", "w+")
        self.cluster = Cluster(brokers.bootstrap_servers, manifest)
        kafka = self.cluster.bootstrap
        copies = brokers.replication
        if self.has_source:
            create_topics(kafka, [NewTopic(self.source, SOURCE_PARTITIONS, copies)])
        if "numbers" in manifest.outcome_topics:
            create_topics(kafka, [NewTopic(outcomes_of(name), 2, copies)])
        if self.publishes:
            create_topics(kafka, [NewTopic(results_of(name), 2, copies)])
        catalogue = Catalogue(kafka)
        catalogue.create_topics(manifest, brokers.replication)
        catalogue.publish(manifest)
        self._notices = NoticesRead(self) if "numbers" in self.in_spark else None
        self._reference, self._servers = reference, brokers.bootstrap_servers
        self.check = RunCheck(kafka, self.topology)
        plan = RunPlan(self.topology, reference, processes=apart(self.topology.manifest), ackers=int(self.tracked))
        self._processes = TopologyProcesses(plan, kafka, log_level="info")
        self._drivers = {
            each: Driver(reference, each, brokers.bootstrap_servers, directory() / f"{name}-{each}")
            for each in self.in_spark
        }

    def __enter__(self) -> Self:
        self._processes.__enter__()
        self.check_processes()
        return self

    def __exit__(self, *_: object) -> None:
        stops = [self._processes.stop, *(driver.stop for driver in self._drivers.values())]
        threads = [threading.Thread(target=stop) for stop in stops]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def check_processes(self) -> None:
        """Keeps everything running, and reads the notices of a spout in Spark."""
        self._processes.check()
        for driver in self._drivers.values():
            driver.check()
        if self._notices is not None:
            self._notices.read()

    @property
    def is_at_work(self) -> bool:
        """Whether each process has tasks or partitions, and messages have effects: no process fails at its start."""
        ackers, components = self._processes.ackers, self._processes.components
        has_owners = components.is_ready and len(ackers.pids(owners=True)) == ackers.count
        return has_owners and self.arena.effects.sum() > _SOME

    def pids(self, component: str) -> list[int]:
        """The processes of a component, or of the acker."""
        if component == "acker":
            return self._processes.ackers.pids()
        driver = self._drivers.get(component)
        return self._processes.components.pids()[component] if driver is None else driver.pids()

    def end(self, component: str) -> None:
        """Ends the processes of a component in order, as a rolling update does; they are started again."""
        pids = self.pids(component)
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        eventually(lambda: not any(map(is_alive, pids)), f"{component} to end after SIGTERM", _END_SECONDS)

    @contextmanager
    def joined(self, component: str) -> Iterator[None]:
        """Runs one more process of a component; at the end it leaves in order."""
        line = [sys.executable, "-m", "acker_cli", "run", self._reference, "--component", component]
        line += ["--bootstrap-servers", self._servers]
        process = subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        try:
            yield
            assert process.poll() is None, f"the process that joined as {component} ended with {process.returncode}"
        finally:
            process.terminate()
            eventually(lambda: process.poll() is not None, f"{component} to leave after SIGTERM", _END_SECONDS)

    def crash_begins(self, since: float) -> None:
        """Notes the messages that a crash may lose with `at_most_once`: those emitted after `since`.

        Call it before the crash, when newer messages of all partitions and tasks were executed: older ones that are
        missing then were lost before.
        """
        there = self.arena.emitted
        self._at_risk = (int(np.searchsorted(self.arena.emitted_at[:there], since)), there)

    def crash_ends(self) -> None:
        """Ends the excuse of a crash: call it when newer messages are executed again."""
        first, before = self._at_risk
        self.excused[first:before] |= self.arena.incomplete[first:before]
        self.excused[before : self.arena.emitted] = True

    @property
    def allowed_losses(self) -> int:
        """How many messages were lost, and may have been lost by a crash."""
        missing = self.arena.incomplete
        return int((missing & self.excused[: len(missing)]).sum())

    def violations(self) -> list[str]:
        """The violations that `acker chaos` finds, when no more messages come."""
        self.check.end()
        verdict = self.check.verdict()
        if not self.in_spark:
            kafka, manifest = self.cluster.bootstrap, self.topology.manifest
            deadline = time.monotonic() + settle_seconds(manifest)
            with draining(kafka, manifest.topology):
                verdict.add("not at rest", await_drained(kafka, manifest, deadline, lambda _seconds: None))
        return [f"{each.problem}: {each.count}, {each.examples}" for each in verdict.violations]

    def source_error(self) -> str | None:
        """An error if the source has other records than were written: then numbers are not those of the messages."""
        if not self.has_source:
            return None
        ends = {partition: end for partition, (_, end) in self._source_progress().items()}
        return misnumbered(self.source, ends, self.arena.emitted)

    def _source_progress(self) -> dict[int, tuple[int, int]]:
        return progress(self.cluster.bootstrap, component_group(self.topology.name, "numbers"), self.source)

    def is_done(self) -> bool:
        """Whether it has no more messages."""
        has_committed = in_one_transaction(self.topology.manifest)
        if self.tracked and not has_committed and self.arena.acked < self.arena.emitted:
            return False
        if self.tracked:
            # Spark commits a little later.
            needs_commits = has_committed or self._notices is not None
            return not needs_commits or all(at == end for at, end in self._source_progress().values())
        source = self._source_progress()
        has_read_all = sum(at for at, _ in source.values()) >= self.arena.emitted and all(
            at == end for bolt in ("split", "sink") for at, end in self.cluster.progress(bolt).values()
        )
        # What is committed may be still to execute.
        effects = int(self.arena.effects.sum())
        if not has_read_all or effects != self._rest[0]:
            self._rest = (effects, time.monotonic())
        return time.monotonic() - self._rest[1] > _REST_SECONDS


def misnumbered(source: str, ends: Mapping[int, int], messages: int) -> str | None:
    """An error if a source does not end behind these messages."""
    expected = {each: len(range(each, messages, SOURCE_PARTITIONS)) for each in range(SOURCE_PARTITIONS)}
    return None if ends == expected else f"{source} ends at {ends}, and not at {expected}: messages have wrong numbers"
