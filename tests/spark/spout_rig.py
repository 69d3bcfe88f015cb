"""Helpers of tests of a Spark spout: a source topic, a real acker, and a simulated receiving bolt."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from confluent_kafka.admin import NewTopic
from pyspark.sql import SparkSession

from spark_jobs.components import Source
from spark_jobs.kafka_options import topic_id
from spark_jobs.spouts import RunningSpout, spout
from spout_sdk import Bolt, OutputCollector, TaskContext, Topology, Tuple
from tests.kafka.sdk_rig import in_threads, progress, write
from tests.manifests import manifest
from tests.spark.rig import Topics, topology_name
from tests.spark.topologies import LINE, TIMEOUT_MS, subscription
from tests.topics import create_topics
from tests.waiting import eventually
from tuple_tree.components import BoltManifest, OutcomesCodec, OutcomesManifest, SpoutManifest
from tuple_tree.manifest import Manifest
from tuple_tree.names import component_group
from tuple_tree.outcome_records import OutcomeRecord, outcome_stream
from tuple_tree.payloads import decode_tuples, payload_codec
from tuple_tree.positions import Position, position_of, topic_key
from tuple_tree.streams import StreamDeclaration

PARTITIONS = 3


def spout_manifest(
    *,
    stream: StreamDeclaration = LINE,
    group_by: str | None = None,
    max_pending: int = 2_000,
    timeout_ms: int = TIMEOUT_MS,
    max_tree_age_ms: int = 2 * TIMEOUT_MS,
    outcomes: OutcomesCodec | None = None,
    **settings: Any,
) -> Manifest:
    """lines (in Spark) → count, which is played."""
    name = topology_name()
    target = None if outcomes is None else OutcomesManifest(topic=f"{name}-outcomes", codec=outcomes)
    of_both: dict[str, Any] = {"streams": (stream,), "timeout_ms": timeout_ms}
    of_count = subscription("lines", "fields", group_by) if group_by else subscription("lines")
    return manifest(
        SpoutManifest(name="other", **of_both),
        SpoutManifest(name="lines", **of_both, max_pending=max_pending, external=True, outcomes=target),
        BoltManifest(name="count", tasks=2, subscriptions=(of_count,)),
        **{"topology": name, "ack_partitions": 3, "tick_ms": 200, "max_tree_age_ms": max_tree_age_ms, **settings},
    )


FailMessage = Callable[[int, bytes], str | None]
"""Root and payload of a tuple → why it is failed, or None to ack it."""


class PlayedBolt(Bolt):
    """The bolt: acks or fails its inputs.

    Attributes:
        deliveries: root and payload of all tuples, in order.
    """

    def __init__(self, fail_message: FailMessage, position: Callable[[int], Position]) -> None:
        self._fail_message = fail_message
        self._position = position
        self.deliveries: list[tuple[int, bytes]] = []

    def prepare(self, context: TaskContext, collector: OutputCollector) -> None:
        self._collector = collector

    def execute(self, tuple_: Tuple) -> None:
        (root,), payload = tuple_.roots, str(tuple_.values[-1]).encode()
        self.deliveries.append((root, payload))
        if (why := self._fail_message(root, payload)) is None:
            self._collector.ack(tuple_)
        else:
            self._collector.fail(tuple_, why)

    @property
    def values(self) -> list[bytes]:
        return [payload for _, payload in self.deliveries]

    def attempts(self) -> dict[tuple[int, int], list[int]]:
        """(partition, offset) → the attempts that were delivered, in order."""
        found: dict[tuple[int, int], list[int]] = {}
        for root, _ in self.deliveries:
            position = self._position(root)
            found.setdefault((position.partition, position.offset), []).append(position.attempt)
        return found


class SpoutStage(Topics):
    """The topics of such a topology.

    Attributes:
        source: topic that the spout reads.
    """

    def __init__(self, bootstrap_servers: str, tmp_path: Path, described: Manifest | None = None) -> None:
        super().__init__(bootstrap_servers, described or spout_manifest(), tmp_path)
        self.source = f"{self.manifest.topology}-source"
        create_topics(self.kafka, [NewTopic(self.source, PARTITIONS, 1)])
        self._target = self.manifest.spout("lines").outcomes
        if self._target is not None:
            create_topics(self.kafka, [NewTopic(self._target.topic, 2, 1)])

    @cached_property
    def topic_key(self) -> int:
        """Of the source, once a spout reads it."""
        return topic_key(topic_id(self.kafka, self.source))

    def position_of(self, root: int) -> Position:
        """The source message of a root."""
        return position_of(root, self.topic_key, self.manifest.ack_partitions)

    def feed(self, values: Iterable[bytes | None]) -> None:
        """Appends messages to the source, partition by partition in turn; the value is also the key."""
        write(self.kafka, self.source, values, PARTITIONS, [("mine", b"kept")], has_keys=True)

    def start(self, spark: SparkSession, trigger: Mapping[str, Any] | None = None, **settings: Any) -> RunningSpout:
        """Starts the spout, with these settings of its `Source`."""
        source = Source(self.source, **settings)
        places: Any = {"kafka": self.kafka, "checkpoint": str(self.checkpoint)}
        return spout(spark, self.manifest, "lines", source, trigger=trigger, **places)

    def drain(self, spark: SparkSession, **settings: Any) -> RunningSpout:
        """Delivers all that is in the source, until every tree has its outcome."""
        running = self.start(spark, {"availableNow": True}, **settings)
        assert running.wait(120), f"{running.outcomes.outstanding} trees are open"
        return running

    @contextmanager
    def played(self, fail_message: FailMessage = lambda _root, _payload: None) -> Iterator[PlayedBolt]:
        """An acker, and the bolt; one instance is both tasks."""
        bolt = PlayedBolt(fail_message, self.position_of)
        with in_threads(Topology(self.manifest, {"count": lambda: bolt}), self.kafka, ("count",)):
            yield bolt

    def committed(self) -> list[int]:
        """How far the spout's group is in each partition of the source."""
        return [committed for committed, _ in self._of_source().values()]

    def ends(self) -> list[int]:
        return [end for _, end in self._of_source().values()]

    def outcomes(self) -> list[tuple[bytes | None, OutcomeRecord]]:
        """The outcomes in the topic of the spout, with their keys."""
        assert self._target is not None
        codec = payload_codec(outcome_stream(self._target.codec))
        found = []
        for record in self.records(self._target.topic):
            (values,) = decode_tuples(codec, record.value() or b"")
            key = record.key()
            found.append((key.encode() if isinstance(key, str) else key, OutcomeRecord(*values)))
        return found

    def _of_source(self) -> dict[int, tuple[int, int]]:
        return progress(self.kafka, component_group(self.manifest.topology, "lines"), self.source)


def lines(count: int, start: int = 0) -> list[bytes]:
    return [f"line {number}".encode() for number in range(start, start + count)]


def await_done(stage: SpoutStage, running: RunningSpout, what: str = "all trees done") -> None:
    """Waits until everything in the source is committed as done."""
    consumed = stage.ends()

    def is_done() -> bool:
        assert not running.query.exception()
        return stage.committed() == consumed

    eventually(is_done, what, 90)
