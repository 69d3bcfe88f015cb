"""The topics in which spouts write outcomes: their records, and where that of a key is."""

from contextlib import suppress

from inspection.message_status.partitioners import likely_partitions
from kafka_clients.log_reader import Place
from tuple_tree.components import OutcomesManifest
from tuple_tree.errors import WireError
from tuple_tree.outcomes import OutcomeRecord, outcome_stream
from tuple_tree.payloads import decode_tuples, payload_codec


class OutcomeTopic:
    """The topic of outcomes of a spout, which has a number of partitions; 0 if it does not exist."""

    def __init__(self, manifest: OutcomesManifest, partitions: int) -> None:
        self.name = manifest.topic
        self._codec = payload_codec(outcome_stream(manifest.codec))
        self._partitions = partitions

    def places(self, key: bytes | None) -> tuple[list[Place], list[Place]]:
        """The partitions where the outcome of a key is by the partitioners of Kafka's clients, and the others.

        Without a key, any of them may have it. So may they if it was too large for a record with its key.
        """
        numbers = range(self._partitions)
        likely = {*(numbers if key is None or not numbers else likely_partitions(key, self._partitions))}
        near = [(self.name, number) for number in numbers if number in likely]
        return near, [(self.name, number) for number in numbers if number not in likely]

    def read(self, value: bytes | None) -> OutcomeRecord | None:
        """A record; None if it is not an outcome: the topic is the user's."""
        with suppress(WireError):
            (values,) = decode_tuples(self._codec, value or b"")
            return OutcomeRecord(*values)
        return None
