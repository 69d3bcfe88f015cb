"""The stage of a whole topology: SDK components and an acker in processes of their own, real all of them."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acker_cli.topology_processes import TopologyProcesses
from acker_worker.stats import WorkerStats
from benchmarks import words
from benchmarks.processes import environment
from benchmarks.spark_topology import sdk_at_work
from spout_sdk import Stats, Topology, load_topology
from tests.kafka.sdk_rig import Cluster, headers_of
from tests.spark import mixed_topologies
from tests.spark.mixed_topologies import ALLOWED, BEGUN, COMPLETE, TIMEOUT
from tests.spark.rig import topology_name
from tests.waiting import eventually
from tuple_tree.anchors import unpack_anchors
from tuple_tree.names import tuples_topic


@dataclass(frozen=True, slots=True)
class MixedStage:
    """A topology at work, all but its Spark components.

    Attributes:
        topology: as declared.
        kafka: librdkafka properties.
        directory: for checkpoints and what was counted.
        processes: SDK components and an acker.
    """

    topology: Topology
    kafka: dict[str, Any]
    directory: Path
    processes: TopologyProcesses

    @property
    def cluster(self) -> Cluster:
        """Its topics."""
        return Cluster(self.kafka["bootstrap.servers"], self.topology.manifest)

    @property
    def counted(self) -> Path:
        """Where the last bolt writes down what it has processed."""
        return self.directory / "counted"

    @property
    def spout(self) -> Stats:
        """What the SDK spout last said."""
        return self.processes.components.stats()["lines"]

    @property
    def ackers(self) -> WorkerStats:
        """What the acker last said."""
        found = self.processes.snapshot().ackers
        assert found is not None
        return found

    def check(self) -> bool:
        """Sees to it that everything runs; false, so that it can stand before a condition."""
        self.processes.check()
        return False

    def received(self, bolt: str) -> int:
        """Records in the inbox of a bolt."""
        return sum(end for _, end in self.cluster.progress(bolt).values())

    def processed(self, bolt: str) -> int:
        """Records in the inbox of an SDK bolt that it has processed, as far as it has committed."""
        return sum(offset for offset, _ in self.cluster.progress(bolt).values())

    def edges(self, bolt: str) -> Counter[tuple[int, int]]:
        """How often each edge, with its root, lies in the inbox of a bolt."""
        return Counter(
            anchor
            for record in self.cluster.records(tuples_topic(self.topology.name, bolt))
            for anchor in unpack_anchors(headers_of(record)["anchors"]).items()
        )

    def allow(self, messages: int) -> None:
        """Lets the SDK spout emit so many messages in all; those that it has emitted stay emitted."""
        fresh = self.directory / "allowed.new"
        fresh.write_text(str(messages))
        # The spout must not read half of it.
        fresh.rename(self.directory / "allowed")

    def await_complete(self, messages: int, what: str, deadline_s: float = 60) -> None:
        """Waits until at least so many messages, and all that the SDK spout began, are acked, and the acker holds none.

        Raises:
            AssertionError: if that takes longer than the deadline.
        """

        def is_complete() -> bool:
            counters = self.spout.counters
            return messages <= counters.get(BEGUN, 0) == counters.get(COMPLETE, 0) and not self.ackers.pending

        eventually(lambda: self.check() or is_complete(), f"all trees to complete: {what}", deadline_s)

    def close(self) -> None:
        """Stops the processes; each tells the last of itself, and writes down what it still holds."""
        self.processes.stop()

    def assert_all_counted(self, messages: int, what: str = "") -> None:
        """Nothing was lost, and nothing was counted that was not emitted; after `close`."""
        found, expected = set(words.counted(self.counted)), set(words.places(messages))
        assert not expected - found, f"lost; {what}"
        assert not found - expected, f"out of nowhere; {what}"


@contextmanager
def mixed_stage(
    topology: str, bootstrap_servers: str, directory: Path, *, timeout: float, max_pending: int
) -> Iterator[MixedStage]:
    """Starts one of `mixed_topologies`, all but its Spark components."""
    settings = {
        words.NAME: topology_name(),
        words.COUNTED: directory / "counted",
        words.MAX_PENDING: max_pending,
        ALLOWED: directory / "allowed",
        TIMEOUT: timeout,
    }
    kafka = {"bootstrap.servers": bootstrap_servers, "log_level": 2}
    reference = f"{mixed_topologies.__name__}:{topology}"
    # None of them is killed: a pause of the machine must not cost one its place in the group.
    of_groups = {**kafka, "session.timeout.ms": 15_000}
    with environment(**settings), sdk_at_work(reference, of_groups) as processes:
        yield MixedStage(load_topology(reference), kafka, directory, processes)
