"""Runs a topology of `chain_topologies`, kills its processes, and checks results that must always be there."""

import json
import random
import signal
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np
import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import NewTopic

from spout_sdk import Exit, TopologyRunner, load_topology
from spout_sdk.kafka_spout.partitions import SourceCommit
from tests.chaos.arena import PARTS, Arena
from tests.kafka.chain_topologies import SOURCE_PARTITIONS, number_of, results_of, source_of
from tests.kafka.guarantee_topologies import ARMED, DIRECTORY, NAME
from tests.kafka.sdk_rig import Cluster, value, write
from tests.topics import create_topics
from tests.waiting import eventually
from tuple_tree.names import component_group

MODULE: Final = "tests.kafka.chain_topologies"


class ChainRun:
    """A topology whose running processes are killed, and its messages.

    Attributes:
        arena: what was executed and acked.
        fed: how many messages there are; their numbers begin at 0.
        exits: of processes that were killed.
    """

    def __init__(self, cluster: Cluster, directory: Path, reference: str, processes: int) -> None:
        self.cluster = cluster
        self.arena = Arena(directory / "arena", "w+")
        self.fed = 0
        self.exits: list[Exit] = []
        self._armed = directory / ARMED
        self._name = cluster.manifest.topology
        self._heads = [head.name for head in cluster.manifest.heads]
        counts = dict.fromkeys(self._heads, processes)
        self.runner = TopologyRunner(reference, cluster.kafka, counts, on_exit=self.exits.append)

    def feed(self, messages: int) -> None:
        """Writes messages to the source."""
        write(self.cluster.bootstrap, source_of(self._name), [b"x"] * messages, SOURCE_PARTITIONS)
        self.fed += messages

    def kill_at(self, step: str) -> None:
        """Feeds messages until a process has killed itself at a step; checks what is done."""
        before = len(self.exits)
        self._armed.write_text(step)

        def is_killed() -> bool:
            if self.arena.acked == self.fed and self._armed.exists():
                self.feed(100)
            return len(self.exits) > before

        eventually(is_killed, f"a process killed at step {step}", 90)
        self.check()

    def kill(self) -> None:
        """Kills any process at any moment while messages are executed; checks what is done."""
        before, acked = len(self.exits), self.arena.acked
        head = random.choice(self._heads)
        eventually(lambda: self.runner.pids()[head], "a process to kill")
        self.feed(2_000)
        enough = random.randrange(1, 1_000)
        eventually(lambda: self.arena.acked > acked + enough, "messages acked", 90)
        self.runner.kill(head)
        eventually(lambda: len(self.exits) > before, "the process gone")
        self.check()

    def check(self) -> None:
        """Checks that the results of all done messages are there; others may be open."""
        done = self.committed() | {*np.flatnonzero(self.arena.acked_at[: self.fed]).tolist()}
        found = self.results()
        missing = [number for number in done if any((number, part) not in found for part in range(PARTS))]
        assert not missing, "messages are done, and their results are missing"
        assert not self.arena.false_acks[: self.fed].any(), "a message was acked before its last tuple was executed"
        assert {exit_.code for exit_ in self.exits} == {-signal.SIGKILL}, self.exits

    def finish(self) -> None:
        """Waits until every message is acked and committed; checks that no result is missing."""
        self._armed.unlink(missing_ok=True)
        eventually(lambda: self.arena.acked == self.fed, "every message acked", 180)
        eventually(lambda: len(self.committed()) == self.fed, "every message committed")
        self.check()
        assert self.results().keys() == {(number, part) for number in range(self.fed) for part in range(PARTS)}
        assert self.runner.stats()["messages"].failed == {}, "no tree failed: a kill needs no time-out"

    def results(self) -> Counter[tuple[int, int]]:
        """Number and part of each committed result → how often it occurs."""
        found = map(json.loads, map(value, self.cluster.records(results_of(self._name))))
        return Counter((number, part) for number, part in found)

    def committed(self) -> set[int]:
        """The messages that are done according to the committed offsets of the spout's group."""
        consumer = Consumer({**self.cluster.bootstrap, "group.id": component_group(self._name, "messages")})
        try:
            places = [TopicPartition(source_of(self._name), each) for each in range(SOURCE_PARTITIONS)]
            answers = consumer.committed(places, timeout=60)
        finally:
            consumer.close()
        done = {each.partition: SourceCommit.read(each.offset, each.metadata).done for each in answers}
        return {
            number_of(partition, offset)
            for partition, of in done.items()
            for begin, end in ((0, of.offset), *of.runs)
            for offset in range(begin, end)
        }


Start = Callable[..., ChainRun]
"""Makes a `ChainRun` of a topology, with its topics."""


def starter(bootstrap_servers: str, monkeypatch: pytest.MonkeyPatch, directory: Path) -> Start:
    def start(topology: str, processes: int = 1) -> ChainRun:
        name = f"chain-{topology.replace('_', '-')}-{uuid.uuid4().hex[:8]}"
        monkeypatch.setenv(NAME, name)
        monkeypatch.setenv(DIRECTORY, str(directory))
        reference = f"{MODULE}:{topology}"
        cluster = Cluster(bootstrap_servers, load_topology(reference).manifest)
        cluster.create_topics()
        topics = {source_of(name): SOURCE_PARTITIONS, results_of(name): 2}
        create_topics(cluster.bootstrap, [NewTopic(topic, count, 1) for topic, count in topics.items()])
        return ChainRun(cluster, directory, reference, processes)

    return start
