"""The acks and fails of a spout that is not in Python: the notices that the ackers send to it."""

import time

from kafka_clients.catalogue import Catalogue
from kafka_clients.log_reader import LogReader
from tests.chaos.arena import Arena
from tests.chaos.topologies import number_of
from tests.kafka.sdk_rig import value
from tuple_tree.manifest import Manifest
from tuple_tree.messages import decode_notice_batch
from tuple_tree.names import notices_topic
from tuple_tree.positions import position_of, topic_key


class NoticesRead:
    """Records in an arena what the notices of a spout say; for one thread."""

    def __init__(
        self, kafka: dict[str, str | int | float | bool], manifest: Manifest, source: str, arena: Arena
    ) -> None:
        topic_id = Catalogue(kafka).topic_id(source)
        assert topic_id is not None
        self._key, self._partitions, self._arena = topic_key(topic_id), manifest.ack_partitions, arena
        self._reader = LogReader(kafka)
        self._reader.assign({(notices_topic(manifest.topology, "numbers"), 0): 0})

    def read(self) -> None:
        """Reads all that is there."""
        while records := self._reader.poll(0.05):
            for record in records:
                batch = decode_notice_batch(value(record))
                for root in batch.acked_roots.tolist():
                    self._arena.ack(self._number(root), time.time())
                for root in batch.failed_roots.tolist():
                    self._arena.fail(self._number(root))

    def _number(self, root: int) -> int:
        position = position_of(root, self._key, self._partitions)
        return number_of(position.partition, position.offset)
