"""Runs a topology of `killed`, kills its processes, and compares its results with its messages."""

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

from spout_sdk import load_topology
from spout_sdk.runtime import Exit, TopologyRunner
from spout_sdk.statistics import Stats
from tests.chaos.arena import PARTS, Arena
from tests.chaos.components import (
    DIRECTORY,
    NAME,
    SOURCE_PARTITIONS,
    number_of,
    results_of,
    source_of,
)
from tests.kafka.killed import ARMED, KILLED, SIGNAL
from tests.kafka.sdk_rig import Cluster, value, write
from tests.manifests import apart
from tests.topics import create_topics
from tests.waiting import eventually
from tuple_tree.names import component_group, dead_letters_topic, tuples_topic
from tuple_tree.source_commits import SourceCommit

_CHUNK: Final = 200


class KilledRun:
    """A topology whose running processes are killed, and its messages.

    Attributes:
        arena: what was executed and acked.
        fed: how many messages there are; their numbers begin at 0.
        exits: of processes.
    """

    def __init__(self, cluster: Cluster, directory: Path, reference: str, processes: int) -> None:
        self.cluster, self.directory = cluster, directory
        self.name = cluster.manifest.topology
        self.arena = Arena(directory / f"{self.name}.arena", "w+")
        self.fed = 0
        self.exits: list[Exit] = []
        self._armed = directory / ARMED
        heads = [head.name for head in cluster.manifest.heads]
        self._spout, self._killed = heads[0], [head for head in heads if head in KILLED]
        self._is_chain = self._spout in KILLED
        workers = apart(cluster.manifest, dict.fromkeys(self._killed, processes))
        self.runner = TopologyRunner(reference, cluster.kafka, workers, on_exit=self.exits.append)

    @property
    def spout(self) -> Stats:
        return self.runner.stats()[self._spout]

    def feed(self, messages: int = _CHUNK) -> None:
        """Writes messages to the source."""
        write(self.cluster.bootstrap, source_of(self.name), [b"x"] * messages, SOURCE_PARTITIONS)
        self.fed += messages

    def feed_more(self) -> None:
        """Writes messages if all are acked, or if `numbers` has emitted almost all: so it emits them almost in order.

        A chain that is killed in the middle of many trees may leave some open until they time out.
        """
        is_read = not self._is_chain and self.spout.emitted >= self.fed - _CHUNK
        if is_read or self.arena.acked == self.fed:
            self.feed()

    def grows(self, count: Callable[[], int], by: int) -> None:
        """Feeds messages until a count has grown, after earlier kills."""
        before = count()

        def has_grown() -> bool:
            self.feed_more()
            return count() > before + by

        eventually(has_grown, f"{by} more", 90)

    def flows(self) -> None:
        """Feeds messages until trees complete."""
        self.grows(lambda: self.arena.acked, 50)

    def produces(self) -> None:
        """Feeds messages until there are results."""
        self.grows(lambda: self.results().total(), 100)

    def stop_at(self, step: str) -> int:
        """Waits until a process has suspended itself at a step, as if it hung; returns its id."""
        (self.directory / SIGNAL).write_text(str(int(signal.SIGSTOP)))
        self._armed.write_text(step)

        def taken() -> list[Path]:
            self.feed_more()
            return list(self.directory.glob("taken-*"))

        (file,) = eventually(taken, f"a process stopped at step {step}", 90)
        return int(file.name.removeprefix("taken-"))

    def kill_at(self, step: str) -> None:
        """Feeds messages until a process has killed itself at a step; checks what a chain has done."""
        before = len(self.exits)
        self._armed.write_text(step)

        def is_killed() -> bool:
            if self._armed.exists():
                self.feed_more()
            return len(self.exits) > before

        eventually(is_killed, f"a process killed at step {step}", 90)
        self.check()

    def kill(self) -> None:
        """Kills any process at any moment while messages are executed; checks what a chain has done."""
        before, component = len(self.exits), random.choice(self._killed)
        eventually(lambda: self.runner.pids()[component], "a process to kill")
        self.feed(10 * _CHUNK if self._is_chain else _CHUNK)
        self.grows(lambda: self.arena.acked, random.randrange(1, 5 * _CHUNK))
        self.runner.kill(component)
        eventually(lambda: len(self.exits) > before, "the process gone")
        self.check()

    def check(self) -> None:
        """Checks the kills; and that the results of all done messages of a chain are there, others may be open."""
        assert {exit_.code for exit_ in self.exits} == {-signal.SIGKILL}, self.exits
        if not self._is_chain:
            return  # results of another process may be committed a moment later
        done = self.committed() | {*np.flatnonzero(self.arena.acked_at[: self.fed]).tolist()}

        def has_results() -> bool:
            found = self.results()
            return all((number, part) in found for number in done for part in range(PARTS))

        if self.cluster.manifest.guarantee == "exactly_once":
            # The markers of a transaction reach its partitions one after another.
            eventually(has_results, "the results of messages that are done")
        assert has_results(), "messages are done, and their results are missing"
        assert not self.arena.false_acks[: self.fed].any(), "a message was acked before its last tuple was executed"

    def finish(self) -> None:
        """Waits until every message is acked and committed; checks that no result is missing."""
        self._armed.unlink(missing_ok=True)
        eventually(lambda: self.arena.acked == self.fed, "every message acked", 180)
        eventually(lambda: len(self.committed()) == self.fed, "every message committed")
        eventually(lambda: self.results().keys() == self.expected().keys(), "every result")
        if self._is_chain:
            self.check()
        assert self.spout.failed == {} or "relay" in self._killed, "no tree failed: a kill needs no time-out"

    def has_committed_inputs(self) -> bool:
        """Whether both bolts have committed all that they have received."""
        progress = [self.cluster.progress(bolt).values() for bolt in ("split", "publish")]
        return self.fed == len(self.committed()) and all(at == end for of in progress for at, end in of)

    def spoil(self) -> None:
        """Appends an unreadable record to the inbox of `split`."""
        self.cluster.produce(tuples_topic(self.name, "split"), 0, b"\xff", [("source", b"numbers/default")])

    def dead_letters(self) -> int:
        return len(self.cluster.records(dead_letters_topic(self.name)))

    def expected(self) -> Counter[tuple[int, int]]:
        return Counter((number, part) for number in range(self.fed) for part in range(PARTS))

    def results(self) -> Counter[tuple[int, int]]:
        """Number and part of each committed result → how often it occurs."""
        found = map(json.loads, map(value, self.cluster.records(results_of(self.name))))
        return Counter((each["number"], each["part"]) for each in found)

    def committed(self) -> set[int]:
        """The messages that are done according to the committed offsets of the spout's group."""
        consumer = Consumer({**self.cluster.bootstrap, "group.id": component_group(self.name, self._spout)})
        try:
            places = [TopicPartition(source_of(self.name), each) for each in range(SOURCE_PARTITIONS)]
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


Start = Callable[..., KilledRun]
"""Makes a `KilledRun` of a topology, with its topics."""


def starter(bootstrap_servers: str, monkeypatch: pytest.MonkeyPatch, directory: Path) -> Start:
    def start(topology: str, processes: int = 1, servers: str = bootstrap_servers, **kafka: object) -> KilledRun:
        name = f"{topology.replace('_', '-')}-{uuid.uuid4().hex[:8]}"
        monkeypatch.setenv(NAME, name)
        monkeypatch.setenv(DIRECTORY, str(directory))
        reference = f"tests.kafka.killed:{topology}"
        cluster = Cluster(servers, load_topology(reference).manifest)
        # Longer than a test waits on a busy machine, unless it is about the time-out of transactions.
        cluster.kafka.update({"transaction.timeout.ms": 60_000, **kafka})
        cluster.create_topics()
        topics = {source_of(name): SOURCE_PARTITIONS, results_of(name): 2}
        create_topics(cluster.bootstrap, [NewTopic(topic, count, 1) for topic, count in topics.items()])
        return KilledRun(cluster, directory, reference, processes)

    return start
