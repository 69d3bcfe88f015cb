"""A process that emits follows the statistics that the tasks of a bolt publish."""

import json
import time
import uuid
from collections import Counter, deque
from typing import ClassVar

from confluent_kafka import Producer

from spout_sdk import BasicBolt, BasicCollector, Spout, SpoutCollector, TaskContext, TopologyBuilder, Tuple, declare
from tests.kafka.sdk_rig import Cluster, in_threads
from tests.waiting import eventually
from tuple_tree.names import stats_topic
from tuple_tree.process_stats import StatsRecord

RATE = 2_000.0  # tuples a second


class Numbers(Spout):
    streams = (declare({"n": int}),)
    chosen: ClassVar[deque[int]] = deque(maxlen=500)

    def open(self, context: TaskContext, collector: SpoutCollector) -> None:
        self.collector, self.due = collector, time.monotonic()

    def next_tuple(self) -> None:
        if time.monotonic() >= self.due:
            self.due += 1 / RATE
            (task,) = self.collector.emit((1,), message_id=1)
            self.chosen.append(task.task)


class Work(BasicBolt):
    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        """Does nothing."""


def test_a_slow_task_receives_less(bootstrap_servers: str) -> None:
    builder = TopologyBuilder(f"shares-{uuid.uuid4().hex[:8]}", guarantee="at_most_once")
    builder.set_spout("numbers", Numbers)
    builder.set_bolt("work", Work, tasks=2).shuffle_grouping("numbers")
    topology = builder.build()
    cluster = Cluster(bootstrap_servers, topology.manifest)
    cluster.create_topics()
    producer = Producer(cluster.bootstrap)
    Numbers.chosen.clear()
    began = time.monotonic() - 1

    def publish() -> None:
        """The statistics of the processes of two tasks, that have been busy since their start."""
        seconds = time.monotonic() - began
        for task, speed in enumerate((1_000, 100)):
            stats = {
                "tasks": [task],
                "task_executed": {str(task): int(speed * seconds)},
                "task_busy_ms": {str(task): int(1_000 * seconds)},
            }
            record = StatsRecord("component", "work", "host", task, "run", int(1_000 * seconds), stats=stats)
            producer.produce(stats_topic(topology.name), record.to_json(), record.key)
        producer.produce(stats_topic(topology.name), b"not JSON", b"component/work/host/9")
        producer.produce(stats_topic(topology.name), json.dumps({}), b"component/another/host/9")
        producer.flush(10)

    def follows() -> bool:
        publish()
        latest = Numbers.chosen.copy()
        return len(latest) == latest.maxlen and 0 < Counter(latest)[1] < 60

    with in_threads(topology, cluster.kafka, users={"numbers": cluster.kafka}):
        eventually(follows, "a smaller share of the slow task")
