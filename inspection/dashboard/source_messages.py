"""Which message of its source a tree of a `KafkaSpout` belongs to: its root says so."""

import time
from collections.abc import Callable, Sequence
from typing import Final

from kafka_clients.catalogue import Catalogue, KafkaSettings
from kafka_clients.errors import ClusterError
from tuple_tree.manifest import Manifest
from tuple_tree.positions import MAX_PARTITIONS, position_of, topic_key

_KNOWN_S: Final = 60.0
"""How long a topic is taken to be as it was found."""


class SourceMessages:
    """The messages behind roots."""

    def __init__(self, kafka: KafkaSettings, manifest: Manifest, clock: Callable[[], float] = time.monotonic) -> None:
        self._catalogue = Catalogue(kafka)
        self._manifest = manifest
        self._clock = clock
        self._topics: dict[str, tuple[float, str | None, int]] = {}
        self._spouts = [spout.name for spout in manifest.spouts]

    def of(self, spout: str, root: int, topics: Sequence[str]) -> str | None:
        """The message as `TOPIC[PARTITION] offset N`; None if the root is of none, or no broker answers."""
        for index, topic in enumerate(topics):
            identity, partitions = self._topic(topic)
            if identity is None:
                continue
            found = position_of(root, topic_key(identity), self._manifest.ack_partitions)
            place, partition = divmod(found.partition, MAX_PARTITIONS // len(topics))
            # The key of another topic gives other numbers, which hardly ever fit.
            if (found.spout, place) == (self._spouts.index(spout), index) and partition < partitions:
                return f"{topic}[{partition}] offset {found.offset}"
        return None

    def _topic(self, name: str) -> tuple[str | None, int]:
        """The id of a topic, None if it is not known, and how many partitions it has."""
        now = self._clock()
        known_at, identity, partitions = self._topics.get(name, (now - _KNOWN_S, None, 0))
        if now - known_at >= _KNOWN_S:
            try:
                partitions = self._catalogue.topics().get(name, 0)
                identity = self._catalogue.topic_id(name) if partitions else None
            except ClusterError:
                identity = None
            self._topics[name] = now, identity, partitions
        return identity, partitions
