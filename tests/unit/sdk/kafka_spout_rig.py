"""A Kafka spout's task in a simulated cluster; the test chooses the outcomes of its trees."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from spout_sdk import FailReason, KafkaSpout, TopologyBuilder
from spout_sdk.spouts.spout_task import SpoutTask
from spout_sdk.statistics.stats import Stats
from spout_sdk.testing import NotIdleError
from tests.components import Sink
from tests.notices import notice_bytes
from tests.unit.sdk.bench import Bench
from tests.unit.sdk.sent_records import Sent
from tuple_tree.control import Control, ControlState
from tuple_tree.manifest import Guarantee
from tuple_tree.payloads import decode_tuples, payload_codec
from tuple_tree.positions import Position, position_of, topic_key
from tuple_tree.source_commits import SourceCommit

AWAY = KafkaException(KafkaError(KafkaError._TRANSPORT))
GROUP = "t.lines"


class Rig:
    """One task of a spout `lines` with more arguments of `KafkaSpout`; another spout is before it.

    Args:
        offsets: of the messages in partition 0 of the topic `source`, or of the first one.
        topics: topic → number of its partitions.

    Attributes:
        is_down: whether no broker answers what the source asks.
        refuses_commits: whether commits fail.
    """

    def __init__(
        self,
        offsets: Iterable[int] = (),
        *,
        topics: Mapping[str, int] | None = None,
        task: int = 0,
        tasks: int = 1,
        guarantee: Guarantee = "at_least_once",
        max_pending: int = 10_000,
        seed: int = 1,
        kind: type[KafkaSpout] = KafkaSpout,
        **spout: Any,
    ) -> None:
        topics = topics or {"source": 1}
        self.topic, *_ = topics
        builder = TopologyBuilder(
            "t", guarantee=guarantee, ack_partitions=2, message_timeout=2, max_tree_age=8, max_spout_pending=max_pending
        )
        builder.set_spout("first", KafkaSpout("other"))
        builder.set_spout("lines", kind([*topics], **spout), tasks=tasks)
        builder.set_bolt("see", Sink).shuffle_grouping("lines")
        self.bench = Bench(builder.build(), seed=seed, topics=topics)
        self.broker = broker = self.bench.cluster.broker
        self.sink, self.clock = self.bench.sink, self.bench.clock
        self.is_down = self.refuses_commits = False
        broker.commit = self._failing(broker.commit, lambda: self.refuses_commits)  # type: ignore[method-assign]
        broker.partitions = self._failing(broker.partitions, lambda: self.is_down)  # type: ignore[method-assign]
        fetch, end = broker.fetch, broker.end
        broker.fetch = lambda at, *rest: [] if self._is_away(at) else fetch(at, *rest)  # type: ignore[method-assign]
        broker.end = lambda topic, partition: -1 if self._is_away(topic) else end(topic, partition)  # type: ignore[method-assign]
        self._number = task
        self._seen = self._known = 0
        self._latest: dict[tuple[int, int], int] = {}  # partition and offset → the root of the last attempt
        self.fill(offsets)
        self.bench.cluster.only.add(("lines", task))

    def _is_away(self, topic: str) -> bool:
        return self.is_down and topic in self.bench.topology.kafka_sources["lines"]

    def _failing(self, call: Callable[..., Any], fails: Callable[[], bool]) -> Callable[..., Any]:
        def called(*given: Any) -> Any:
            if fails():
                raise AWAY
            return call(*given)

        return called

    # The topics.

    def add(self, value: bytes | None, *, partition: int = 0, topic: str | None = None, **more: Any) -> int:
        """Adds a message with a key or headers, and returns its offset."""
        return self.bench.cluster.produce(topic or self.topic, value, partition=partition, **more)

    def fill(self, offsets: Iterable[int], partition: int = 0, topic: str | None = None) -> None:
        """Adds messages at these offsets; the offsets between them have none."""
        topic = topic or self.topic
        for offset in offsets:
            while (end := self.broker.end(topic, partition)) < offset:
                self.add(None, partition=partition, topic=topic)
                self.broker.delete(topic, partition, max(1, end), end + 1)
            self.add(f"{topic}/{partition}@{offset}".encode(), partition=partition, topic=topic)

    def set_commit(self, commit: SourceCommit) -> None:
        """Commits for partition 0, as an earlier owner or another program."""
        made = commit.made()
        self.broker.commit(GROUP, [TopicPartition(self.topic, 0, made.offset, metadata=made.metadata)])

    def commit(self, partition: int = 0) -> SourceCommit:
        found = self.broker.committed(GROUP, self.topic, partition)
        assert found is not None, "nothing is committed"
        return SourceCommit.read(found.offset, found.metadata)

    @property
    def committed(self) -> int:
        return self.commit().offset

    # The task.

    @property
    def task(self) -> SpoutTask:
        found = self.bench.cluster._tasks["lines", self._number].task
        assert isinstance(found, SpoutTask)
        return found

    @property
    def pending(self) -> list[int]:
        """The offsets of open trees."""
        return self.bench.cluster.pending("lines")

    @property
    def stats(self) -> Stats:
        return self.bench.cluster.stats("lines")

    def restart(self, *, cleanly: bool = False) -> None:
        """Another process gets the task; the previous one ends without a commit, or cleanly."""
        cluster = self.bench.cluster
        (cluster.restart if cleanly else cluster.kill)("lines", self._number)

    def request(self, state: ControlState | None) -> None:
        """Requests a state of the topology, or has the request not be known; the task has read it then."""
        self.bench.cluster._control.control = None if state is None else Control(state)
        self.work(0.5)

    def work(self, seconds: float = 0.0) -> None:
        """Lets time pass, and runs the task until it is idle, or for some turns in an outage."""
        self.clock.advance(seconds)
        if self.refuses_commits or self.is_down:
            with suppress(NotIdleError):
                self.bench.cluster.run_until_idle(limit=50)
        else:
            self.bench.run()

    # Its tuples.

    def emitted(self) -> list[tuple[Any, ...]]:
        """Values emitted since the last call."""
        return [self.values(sent) for sent in self._new()]

    def roots(self) -> list[int]:
        """Roots emitted since the last call."""
        return [self.root(sent) for sent in self._new()]

    def positions(self) -> list[tuple[int, int, int]]:
        """Partition, offset and attempt of the roots emitted since the last call."""
        found = [self.position(root) for root in self.roots()]
        return [(each.partition, each.offset, each.attempt) for each in found]

    def offsets(self) -> list[int]:
        return [offset for _, offset, _ in self.positions()]

    def attempts(self) -> list[int]:
        return [attempt for *_, attempt in self.positions()]

    def position(self, root: int) -> Position:
        """The position of the message of a root; the partition is the number in positional roots."""
        return position_of(root, topic_key(self.topic), 2)

    def values(self, sent: Sent) -> tuple[Any, ...]:
        assert sent.value is not None
        name = sent.header["source"].decode().partition("/")[2]
        codec = payload_codec(self.bench.topology.manifest.stream("lines", name))
        (values,) = decode_tuples(codec, sent.value)
        return values

    @staticmethod
    def root(sent: Sent) -> int:
        (root,) = sent.edges
        return root

    def _new(self) -> list[Sent]:
        new = self.sink.tuples[self._seen :]
        self._seen += len(new)
        return new

    def forget_sent(self) -> None:
        self.sink.all.clear()
        self._seen = self._known = 0

    # Their outcomes.

    def handle(
        self, acked: Iterable[int], failed: Mapping[int, str] | None = None, reason: FailReason = FailReason.FAILED
    ) -> None:
        """A notice of roots; no time passes until the task has handled it."""
        why = {root: (reason, message) for root, message in (failed or {}).items()}
        self.broker.append("t.notices.lines", self._number, None, notice_bytes(acked, why), None)
        self.work()

    def notify(
        self,
        *acked: int,
        failed: dict[int, str] | None = None,
        reason: FailReason = FailReason.FAILED,
        partition: int = 0,
    ) -> None:
        """A notice of the latest attempts of offsets of a partition."""
        tuples = self.sink.tuples
        for sent in tuples[self._known :]:
            if sent.edges:
                found = self.position(self.root(sent))
                self._latest[found.partition, found.offset] = self.root(sent)
        self._known = len(tuples)
        why = {self._latest[partition, offset]: message for offset, message in (failed or {}).items()}
        self.handle([self._latest[partition, offset] for offset in acked], why, reason)

    def fail(self, *offsets: int, reason: FailReason = FailReason.FAILED, partition: int = 0) -> None:
        self.notify(failed=dict.fromkeys(offsets, "no"), reason=reason, partition=partition)

    def letters(self) -> list[tuple[bytes | None, str]]:
        """Value and reason of the dead letters."""
        return [(sent.value, sent.header["dead-letter.reason"].decode()) for sent in self.sink.to(".dead-letters")]
