"""`KafkaBolt`: writes results of a topology to a topic of the user's."""

import copy
from collections.abc import Callable, Sequence
from typing import Literal

from spout_sdk.api.components import AnyBolt
from spout_sdk.api.needs import Needs
from spout_sdk.api.tuples import Tuple
from spout_sdk.arguments import check_choice
from spout_sdk.errors import TopologyError
from spout_sdk.operators.kafka_operator import Part, kafka_operator

Codec = Literal["json", "avro", "bytes"]


class KafkaBolt(AnyBolt):
    """Writes each tuple as a record of a topic that is not the topology's.

    A tuple is acked when its record is delivered, and its tree fails when it is not: at once if the record is refused,
    for instance because it is too large, and other records with it are written. So with
    `at_least_once` each tuple is in the topic once, and again for each replay; with `at_most_once` once or not at all;
    with `exactly_once` the records are part of the bolt's transactions, and consumers with
    `isolation.level=read_committed` see each once.

        builder.set_bolt("publish", KafkaBolt("word-counts", key="word")).shuffle_grouping("count")

    An instance is also a factory: a call returns a copy, one for each task.

    Records with a key go to the partition of its murmur2 hash, as those of Kafka's own clients; others to any.

    Args:
        topic: its name, or a function of the tuple that returns it. It must exist: the first tuple for a missing topic
            fails after about five seconds, and later tuples fail at once.
        key: a field of text or bytes, or a function of the tuple that returns either; None for records without keys.
        value: the fields of the record's value, in order, or a function of the tuple that returns text or bytes, or
            None for a tombstone; all fields of the tuple unless given.
        headers: header name → a field of text or bytes, or a function of the tuple.
        codec: how fields make a value: `json`, an object; `avro`, the bare body of a record of the fields, without the
            schema id that consumers with a Schema Registry expect; `bytes`, the single field, text or bytes, as it is.

    Attributes:
        topic: as given. If it is a name, the bolt does not start without it, and `acker run --local` creates it.
        key, value, headers, codec: as given; `value` is the field itself if the codec is `bytes`.

    Raises:
        TopologyError: if an argument is invalid.
    """

    needs = Needs(
        "a KafkaBolt",
        called_by=kafka_operator,
        instance=True,
        ticks=True,
        writes=True,
        never_called=dict.fromkeys(
            ("prepare", "execute", "cleanup"),
            "pass functions of the tuple as topic=, key= or value=, or derive a Bolt that calls collector.write",
        ),
    )

    def __init__(
        self,
        topic: str | Callable[[Tuple], str],
        *,
        key: Part = None,
        value: Sequence[str] | Callable[[Tuple], bytes | str | None] | None = None,
        headers: dict[str, Part] | None = None,
        codec: Codec = "json",
    ) -> None:
        if isinstance(value, str):
            raise TopologyError(f"value={value!r} of a KafkaBolt is text: write value=[{value!r}] for one field")
        check_choice("codec of a KafkaBolt", codec, Codec)
        self.topic = topic
        self.key = key
        self.value: Sequence[str] | Part = value
        self.headers = dict(headers or {})
        self.codec: Codec = codec
        if codec == "bytes" and not callable(value):
            if value is None or len(value) != 1:
                raise TopologyError("codec='bytes' of a KafkaBolt takes one field: name it, as in value=['text']")
            self.value = value[0]

    def __call__(self) -> "KafkaBolt":
        """A bolt like this one, for a task."""
        return copy.copy(self)
