"""`TopicBolt`: writes rows to a topic of the user's, as `Stream.to` declares it."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from operator import attrgetter, itemgetter
from typing import Any

from spout_sdk.api.row_members import shown_type
from spout_sdk.api.row_types import RowType, json_encoder
from spout_sdk.bolts.input_rows import InputRows
from spout_sdk.emitting.task import Task
from spout_sdk.errors import TopologyError
from spout_sdk.operators.kafka_bolt import KafkaBolt
from spout_sdk.steps.call import Call, Results
from spout_sdk.steps.operator import RowsOperator
from tuple_tree.payloads import payload_codec


class WriteCall(Call):
    """The function returns the value of a record, or its key and value.

    An input is acked, and done when its record is delivered.
    """

    def __init__(self, topic: str, has_keys: bool, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._topic, self._has_keys = topic, has_keys

    def end(self) -> None:
        records, positions = self._results()
        if records:
            keys, values = zip(*records, strict=True) if self._has_keys else (None, records)
            indices = [self._indices[at] for at in positions]
            inputs = self._inputs if self._emitter.has_hooks else ()
            hooked = inputs.tuples() if isinstance(inputs, InputRows) else inputs
            self._settlement.writes.write_all(self._pack, indices, self._topic, keys, values, tuples=hooked)

    def _results(self) -> Results:
        done = [at for at in range(len(self.returned)) if at not in self._failed]
        return [self.returned[at] for at in done], done


class TopicOperator(RowsOperator):
    """Writes a record for each row."""

    def __init__(self, bolt: Any, task: Task, *rest: Any) -> None:
        super().__init__(bolt, task, *rest)
        self._makes_call = partial(WriteCall, bolt.topic, bolt.key_of is not None)
        key_of, value_of = bolt.key_of, bolt.value_of
        self._function = value_of if key_of is None else lambda row: (as_part(key_of(row)), value_of(row))


class TopicBolt(KafkaBolt):
    """Writes rows of a type as JSON by msgspec, as Avro, or, if they are text or bytes, as they are.

    Attributes:
        takes: the type of the rows.
        key_of: returns the key of a row; None for no keys.
        value_of: returns the value of the record of a row.
    """

    needs = replace(KafkaBolt.needs, kind="a topic", called_by=TopicOperator)
    str_of = "key=lambda row: str(row.{})"

    def __init__(
        self, topic: str, takes: RowType[Any], key: str | Callable[[Any], str | bytes | None] | None, codec: Any
    ) -> None:
        super().__init__(topic, key=key, codec=codec)
        self.takes = takes
        if isinstance(key, str) and key not in (names := takes.stream.field_names):
            raise TopologyError(
                f"to({topic!r}, key={key!r}): {shown_type(takes.type)} has no member {key!r}: name one of "
                f"{', '.join(names)}, or pass a function of the row"
            )
        self.key_of = _member(takes, key) if isinstance(key, str) else key
        self.value_of = _encoder(takes, codec)


def as_part(made: Any) -> bytes | None:
    """A key as bytes; raises `TypeError` if it is neither text nor bytes."""
    if isinstance(made, str):
        return made.encode()
    if made is None or isinstance(made, bytes):
        return made
    raise TypeError(
        f"the key of a record is text or bytes, not {type(made).__name__}: pass key=, a function of the row"
    )


def _member(takes: RowType[Any], name: str) -> Callable[[Any], Any]:
    if takes.cls is dict:
        return itemgetter(name)
    if issubclass(takes.cls, tuple):
        return itemgetter(takes.stream.field_names.index(name))
    return attrgetter(name) if takes.has_members else lambda row: row


def _encoder(takes: RowType[Any], codec: str) -> Callable[[Any], bytes | None]:
    if codec == "avro":
        made = payload_codec(takes.stream.model_copy(update={"codec": "avro"}))
        return lambda row: made.encode([made.row(takes.values(row))])
    if takes.type is bytes:
        return lambda row: row
    if takes.type is str:
        return str.encode
    return json_encoder()
