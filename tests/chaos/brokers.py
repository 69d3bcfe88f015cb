"""The brokers under faults: one on this machine, or the three of the compose file in containers."""

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ClusterMetadata

from acker_cli.chaos.faults import End, FaultKind, broker_faults
from local_kafka import LocalKafka
from local_kafka.properties import free_port
from spout_sdk import Topology
from tests.broker import KILLED
from tests.cluster.project import NAME, Project, running
from tests.waiting import eventually
from tuple_tree.names import acks_topic, component_group

_OFFSETS: Final = "__consumer_offsets"
_QUORUM: Final = "org.apache.kafka.tools.MetadataQuorumCommand"
_CONFIGS: Final = "kafka.admin.ConfigCommand"
_FULL: Final = "/var/lib/kafka/data/full"
_SLOW: Final = 20_000
"""Bytes a second that each client may produce under a quota."""
_HERE: Final = Path(__file__).parent
_PROJECT: Final = f"{NAME}-chaos"


class Brokers(Protocol):
    """The brokers' interface for faults."""

    bootstrap_servers: str
    replication: int

    def kinds(self, topologies: Sequence[Topology]) -> list[FaultKind]:
        """The faults; some are of a broker that one of these topologies needs."""
        ...

    def await_whole(self) -> None:
        """Waits until all brokers have all that they should have."""
        ...


class LocalBroker:
    """One broker in a process of this machine."""

    replication = 1

    def __init__(self, kafka: LocalKafka) -> None:
        self.bootstrap_servers = kafka.bootstrap_servers
        self._kafka = kafka

    def kinds(self, _topologies: Sequence[Topology]) -> list[FaultKind]:
        def stop(_rng: random.Random) -> End:
            self._kafka.stop()
            return self._kafka.start

        return [*broker_faults(self._kafka), FaultKind("stop broker", (0.0, 2.0, 10.0), stop)]

    def await_whole(self) -> None:
        """It is complete as soon as it has started."""


class ThreeBrokers:
    """The brokers of the compose file: three replicas, and at least two in sync to write."""

    replication = 3
    _faults: Final[Mapping[str, tuple[float, ...]]] = {
        "kill controller": (2.0, 30.0),
        "kill coordinator": (2.0, 30.0),
        "kill leader": (2.0, 30.0),
        "stop coordinator": (10.0,),
        "pause coordinator": (5.0, 30.0, 90.0),
        "pause leader": (5.0, 30.0, 90.0),
        "kill two brokers": (10.0, 60.0),
        "fill a disk": (30.0,),
        "quota": (20.0,),
    }

    def __init__(self, project: Project, ports: list[int]) -> None:
        self.bootstrap_servers = ",".join(f"127.0.0.1:{port}" for port in ports)
        self._project = project
        found = {container.service: container.id for container in project.containers()}
        self._ids = {number: found[f"kafka-{number}"] for number in (1, 2, 3)}

    def kinds(self, topologies: Sequence[Topology]) -> list[FaultKind]:
        def kind(name: str, seconds: tuple[float, ...]) -> FaultKind:
            return FaultKind(name, seconds, lambda rng: self._begin(name, rng, rng.choice(topologies)))

        return [kind(*each) for each in self._faults.items()]

    def _begin(self, kind: str, rng: random.Random, topology: Topology) -> End:
        if kind == "quota":
            value = f"producer_byte_rate={_SLOW}"
            self._quota("--add-config", value)
            return lambda: self._quota("--delete-config", value[:18])
        if kind == "fill a disk":
            self._fill()
            return self._empty
        if kind == "kill two brokers":
            victims = rng.sample([1, 2, 3], 2)
        elif kind.endswith("controller"):
            victims = [self._controller()]
        elif kind.endswith("coordinator"):
            victims = [self._coordinator(topology, rng)]
        else:
            victims = [self._leader(acks_topic(topology.name), 0)]
        begin, end = {"kill": ("kill", "start"), "stop": ("stop", "start"), "pause": ("pause", "unpause")}[
            kind.partition(" ")[0]
        ]
        self._each(begin, victims)
        return lambda: self._back(end, victims)

    def await_whole(self) -> None:
        def is_whole() -> bool:
            topics = self._metadata().topics.values()
            partitions = [partition for topic in topics for partition in topic.partitions.values()]
            return bool(partitions) and all(len(partition.isrs) == self.replication for partition in partitions)

        eventually(is_whole, "all replicas in sync", 120)

    def _each(self, action: str, victims: list[int]) -> None:
        self._project.docker(action, *(self._ids[number] for number in victims))

    def _is_paused(self, number: int) -> bool:
        return self._project.docker("inspect", "--format", "{{.State.Paused}}", self._ids[number]).strip() == "true"

    def _back(self, action: str, victims: list[int]) -> None:
        """Ends a fault: it is over when all brokers have registered, as with a broker of this machine."""
        if action == "unpause":
            # An engine that has not paused a container after all refuses to unpause it.
            victims = [number for number in victims if self._is_paused(number)]
        if victims:
            self._each(action, victims)
        eventually(lambda: len(self._metadata().brokers) == self.replication, "all brokers registered", 300)

    def _metadata(self) -> ClusterMetadata:
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})
        try:
            return admin.list_topics(timeout=30)
        except KafkaException:
            return ClusterMetadata()

    def _fill(self) -> None:
        """The broker ends as soon as it writes, and again whenever it is started."""
        output = self._project.compose(
            "exec", "--no-TTY", "disk", "sh", "-c", f"dd if=/dev/zero of={_FULL} bs=1M 2>&1; true"
        )
        assert "No space left on device" in output, output
        eventually(lambda: len(self._metadata().brokers) < self.replication, "the broker to end", 60)

    def _empty(self) -> None:
        self._project.compose("exec", "--no-TTY", "disk", "rm", _FULL)
        # The engine starts a container again later each time, up to a minute later.
        self._back("restart", [3])

    def _java(self, main: str, *arguments: str) -> str:
        # Not every image has a script for each.
        line = f"java -Xmx128m -cp '/opt/kafka/libs/*' {main} --bootstrap-server 127.0.0.1:9092 {' '.join(arguments)}"
        return self._project.docker("exec", self._ids[1], "sh", "-c", line)

    def _quota(self, *change: str) -> None:
        self._java(_CONFIGS, "--alter", "--entity-type", "clients", "--entity-default", *change)

    def _controller(self) -> int:
        found = re.search(r"LeaderId:\s+(\d+)", self._java(_QUORUM, "describe", "--status"))
        assert found
        return int(found[1])

    def _coordinator(self, topology: Topology, rng: random.Random) -> int:
        groups = [component_group(topology.name, component) for component in ("split", "sink")]
        return self._leader(_OFFSETS, java_hash(rng.choice(groups)))

    def _leader(self, topic: str, number: int) -> int:
        partitions = self._metadata().topics[topic].partitions
        return int(partitions[number % len(partitions)].leader)


def java_hash(text: str) -> int:
    """`String.hashCode` without its sign, by which Kafka chooses a group's partition of `__consumer_offsets`."""
    value = 0
    for character in text:
        value = (31 * value + ord(character)) & 0xFFFF_FFFF
    return value & 0x7FFF_FFFF


@contextmanager
def local_broker(directory: Path) -> Iterator[Brokers]:
    """Starts one broker."""
    with LocalKafka(data_dir=directory, heap="768m", properties=KILLED) as kafka:
        yield LocalBroker(kafka)


@contextmanager
def three_brokers() -> Iterator[Brokers]:
    """Starts three brokers in containers, and waits until they are well."""
    ports: list[int] = []
    for _ in range(3):
        ports.append(free_port(taken=ports))
    # Files on a disk in memory count as the container's memory.
    environment = {"KAFKA_MEMORY": "6g", **{f"KAFKA_{number}_PORT": str(port) for number, port in enumerate(ports, 1)}}
    brokers = [f"kafka-{number}" for number in (1, 2, 3)]
    files = [str(_HERE / "compose.yml")]
    with running("disk", *brokers, files=files, environment=environment, name=_PROJECT) as project:
        for container in project.containers(*brokers):
            project.await_health(container)
        yield ThreeBrokers(project, ports)
