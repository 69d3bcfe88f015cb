"""The topics in which spouts write outcomes: their records, and where that of a key is."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Self

from confluent_kafka import Message

from inspection.message_status.partitioners import likely_partitions
from kafka_clients.log_reader import Place
from tuple_tree.components import OutcomesManifest
from tuple_tree.errors import WireError
from tuple_tree.manifest import Manifest
from tuple_tree.outcome_records import OutcomeRecord, OutcomesOf, outcome_stream
from tuple_tree.payloads import decode_tuples, payload_codec


class OutcomeTopic:
    """The topic to which a spout writes outcomes.

    Args:
        own: recognises the outcomes of the spout.
        partitions: how many the topic has; 0 if it does not exist.
    """

    def __init__(self, target: OutcomesManifest, own: OutcomesOf, partitions: int) -> None:
        self.name = target.topic
        self._codec, self._own = payload_codec(outcome_stream(target.codec)), own
        self._partitions = partitions

    @classmethod
    def of(
        cls, manifest: Manifest, spout: str, published: Mapping[str, object], topics: Mapping[str, int]
    ) -> Self | None:
        """The topic of a spout's outcomes; None if it writes none.

        Args:
            published: topology → its manifest, of all that are published.
            topics: topic → its number of partitions.
        """
        target = manifest.spout(spout).outcomes
        if target is None:
            return None
        return cls(target, OutcomesOf.among(manifest, spout, published), topics.get(target.topic, 0))

    def places(self, key: bytes | None) -> tuple[list[Place], list[Place]]:
        """The partitions where the outcome of a key is by the partitioners of Kafka's clients, and the others.

        Without a key, any of them may have it. So may they if it was too large for a record with its key.
        """
        numbers = range(self._partitions)
        likely = {*(numbers if key is None or not numbers else likely_partitions(key, self._partitions))}
        near = [(self.name, number) for number in numbers if number in likely]
        return near, [(self.name, number) for number in numbers if number not in likely]

    def read(self, record: Message) -> OutcomeRecord | None:
        """A record; None if it is not an outcome of the spout: the topic is the user's."""
        if not self._own.have(record.headers()):
            return None
        with suppress(WireError):
            (values,) = decode_tuples(self._codec, record.value() or b"")
            return OutcomeRecord(*values)
        return None
