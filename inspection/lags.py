"""What waits: records in the inboxes of bolts that their groups have not done, and dead letters."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from inspection.topology_status import ClusterStatus
from kafka_clients.catalogue import Catalogue, KafkaSettings
from tuple_tree.manifest import Manifest
from tuple_tree.names import dead_letters_topic


@dataclass(frozen=True, slots=True)
class Waiting:
    """What waits in a topology.

    Attributes:
        lags: bolt → records that its group has not done; None where that may not be asked, and for an external bolt
            that has committed nothing.
        dead_letters: records in the topology's dead letters; None if there is no such topic.
        task_lags: bolt → task → the same as `lags` of each task.
    """

    lags: Mapping[str, int | None] = field(default_factory=dict)
    dead_letters: int | None = None
    task_lags: Mapping[str, Mapping[int, int | None]] = field(default_factory=dict)


class Lags:
    """Asks the brokers what waits.

    Args:
        kafka: librdkafka properties.
        manifest: of the topology.
    """

    def __init__(self, kafka: KafkaSettings, manifest: Manifest) -> None:
        self._manifest = manifest
        self._catalogue = Catalogue(kafka)
        self._status = ClusterStatus(kafka)

    def read(self) -> Waiting:
        """What waits now.

        Raises:
            AccessError: if this user may not describe the topics.
            BrokerUnreachableError: if there is no answer in time.
        """
        (status,) = self._status.of([self._manifest], self._catalogue.topics(), with_members=False)
        dead_letters = dead_letters_topic(self._manifest.topology)
        letters = [
            sum(one.end - one.begin for one in each.partitions) for each in status.topics if each.name == dead_letters
        ]
        there = dead_letters not in status.missing
        return Waiting(
            {bolt.name: status.of_component(bolt.name)[1] for bolt in self._manifest.bolts},
            letters[0] if letters and there else None,
            {bolt.name: status.task_lags(bolt.name) for bolt in self._manifest.bolts},
        )
