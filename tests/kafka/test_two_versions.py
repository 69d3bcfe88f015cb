"""Processes of two versions of a topology, which share the tasks of their components."""

import time
import uuid
from collections.abc import Callable
from functools import partial

import pytest
from confluent_kafka import Producer

from acker_cli.cluster.publishing import planned
from kafka_clients.catalogue import Catalogue
from spout_sdk import BasicBolt, BasicCollector, KafkaSpout, Topology, TopologyBuilder, Tuple, declare
from spout_sdk.runtime import ComponentRunner
from tests.kafka.sdk_rig import Source, Threaded, acking
from tests.waiting import eventually
from tuple_tree.names import dead_letters_topic

SECONDS = 60.0
Executed = Callable[[str, str], None]


class OldSplit(BasicBolt):
    streams = (declare({"text": str}, name="texts"),)

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        collector.emit((tuple_["value"],), stream="texts")


class NewSplit(BasicBolt):
    streams = (declare({"text": str, "length": int}, name="measured"),)

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        collector.emit((tuple_["value"], len(tuple_["value"])), stream="measured")


class Keep(BasicBolt):
    def __init__(self, executed: Executed) -> None:
        self._executed = executed

    def execute(self, tuple_: Tuple, _collector: BasicCollector) -> None:
        self._executed(tuple_.stream, tuple_["text"])


def version(name: str, source: str, executed: Executed, split: type[BasicBolt]) -> Topology:
    """A topology in which one stream takes the place of another one."""
    builder = TopologyBuilder(name, ack_partitions=2)
    builder.set_spout("messages", KafkaSpout(source))
    builder.set_bolt("split", split, tasks=2).shuffle_grouping("messages")
    builder.set_bolt("keep", partial(Keep, executed), tasks=2).shuffle_grouping("split", split.streams[0].name)
    return builder.build()


@pytest.mark.exhaustive
def test_two_versions_run_for_a_minute_without_a_dead_letter_or_a_loss(bootstrap_servers: str) -> None:
    name = f"versions-{uuid.uuid4().hex[:8]}"
    source = f"{name}-source"
    seen: dict[str, set[str]] = {"texts": set(), "measured": set()}
    old, new = (
        version(name, source, lambda stream, text: seen[stream].add(text), split) for split in (OldSplit, NewSplit)
    )
    cluster = Source(bootstrap_servers, old, {source: 1})
    producer = Producer(cluster.bootstrap)
    written: list[str] = []

    def write(until: Callable[[], bool]) -> None:
        while not until():
            written.append(f"message {len(written)}")
            producer.produce(source, written[-1].encode())
            producer.poll(0.02)

    def run(topology: Topology, component: str) -> Threaded:
        return Threaded(ComponentRunner(topology, component, cluster.kafka))

    def end(*running: Threaded) -> None:
        for each in running:
            each.stop()
        for each in running:
            each.join()

    with acking(cluster):
        spout = run(old, "messages")
        olds = [run(old, each) for each in ("split", "keep")]
        write(lambda: len(seen["texts"]) > 20)
        catalogue = Catalogue(cluster.kafka)
        wanted = [
            f"publish the manifest of {name}",
            "restart keep (1 process)",
            "restart split (1 process)",
            f"wait until there is no lag of keep (acker topologies show {name})",
        ]

        def steps() -> list[str]:
            return [each.text.split(":")[0] for each in planned(cluster.kafka, catalogue, new.manifest, force=False)]

        eventually(lambda: steps() == wanted, "the statistics of all processes, and the plan", 30)
        catalogue.publish(new.manifest)
        # In no order, and they share tasks: each receives what it does not know from the other's.
        news = [run(new, each) for each in ("split", "keep")]
        deadline = time.monotonic() + SECONDS
        write(lambda: time.monotonic() > deadline)
        end(*olds)
        write(lambda: len(seen["measured"]) > 20)
        assert producer.flush(60) == 0
        eventually(lambda: set(written) <= seen["texts"] | seen["measured"], "each message", 120)
        cluster.await_all_committed(120)
        end(spout, *news)
    assert cluster.records(dead_letters_topic(name)) == []
    assert len(written) > SECONDS
