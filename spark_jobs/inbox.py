"""A bolt's inbox: Kafka records in, rows of the streams' fields out, and what cannot be used set aside."""

import functools
import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.types import StructField, StructType

from spark_jobs.anchors import are_of_one_tuple, one_pair, roots_of, several_pairs, tuple_headers
from spark_jobs.counts import observed
from spark_jobs.dead_letters import dead_letter, dead_letter_records, reason
from spark_jobs.errors import ComponentRefusedError
from spark_jobs.payloads import FIELD, StreamSchema, is_payload, read_payload, schema_of
from spark_jobs.tracking import SOURCE, TRACKING, TRACKING_TYPE, tracking_of
from tuple_tree.anchors import PAIR_BYTES, SOURCE_HEADER
from tuple_tree.manifest import BoltManifest, Manifest

ID: Final = "_id"
ROOT: Final = "_root"
EDGE: Final = "_edge"
SEVERAL: Final = "_several"
DEAD: Final = "_dead"


@dataclass(frozen=True, slots=True)
class Inbox:
    """What a bolt receives.

    Attributes:
        manifest: of the topology.
        bolt: its name.
        sources: `component/stream` → schema of that stream.
        fields: those of all streams together, by name.
    """

    manifest: Manifest
    bolt: str
    sources: dict[str, StreamSchema]
    fields: StructType

    @property
    def row_type(self) -> StructType:
        """What `transform` receives: the fields, `_source` and `_tracking`."""
        ours = StructType.fromDDL(f"{SOURCE} string, {TRACKING} {TRACKING_TYPE}")
        assert isinstance(ours, StructType)  # noqa: S101 - for the type checker
        return StructType([*self.fields, *ours])


def inbox_of(spark: SparkSession, manifest: Manifest, bolt: BoltManifest) -> Inbox:
    """The inbox of a bolt.

    Raises:
        ComponentRefusedError: if two of its streams have a field of the same name and different types.
    """
    sources = {
        f"{subscription.source}/{subscription.stream}": schema_of(
            spark, manifest.stream(subscription.source, subscription.stream)
        )
        for subscription in bolt.subscriptions
    }
    fields: dict[str, StructField] = {}
    for source, schema in sources.items():
        for field in schema.fields:
            known = fields.setdefault(field.name, StructField(field.name, field.dataType))
            if known.dataType != field.dataType:
                raise ComponentRefusedError(
                    f"bolt {bolt.name!r} receives field {field.name!r} as {known.dataType.simpleString()}, and from "
                    f"{source} as {field.dataType.simpleString()}: a DataFrame has one type a column, so rename one"
                )
    return Inbox(manifest, bolt.name, sources, StructType(list(fields.values())))


class InboxReader:
    """Reads the records of micro-batches; its expressions are made once.

    Args:
        inbox: of the bolt.
        identity: `bigint` literal that stands for query and topic.
    """

    def __init__(self, inbox: Inbox, identity: Column) -> None:
        anchors, counts, source = tuple_headers(F.col("headers"))
        nothing = F.lit(None).cast("binary")
        distinct = list(dict.fromkeys(_Distinct(schema) for schema in inbox.sources.values()))
        schemas = {f"_read{number}": each.schema for number, each in enumerate(distinct)}
        unreadable = ~functools.reduce(
            operator.or_, [is_payload(F.col(name), schema) for name, schema in schemas.items()], F.lit(False)
        )
        # Each step looks into columns of the one before, which are thus made once.
        self._steps: tuple[list[Column | str], ...] = (
            [
                *("key", "value", "topic", "partition", "offset", "headers"),
                (anchors if inbox.manifest.acking else nothing).alias("_anchors"),
                (counts if inbox.manifest.acking else nothing).alias("_counts"),
                source.cast("string").alias(SOURCE),
            ],
            [
                "*",
                one_pair(F.col("_anchors")).alias("_pair"),
                *[_read(each, inbox, len(distinct)).alias(name) for name, each in zip(schemas, distinct, strict=True)],
            ],
            ["*", _why_dead(inbox, unreadable).alias("_why")],
            [
                *_fields(inbox, schemas),
                *([SOURCE] if len(inbox.sources) > 1 else []),
                F.xxhash64(identity, "partition", "offset").alias(ID),
                F.col("_pair")["root"].cast("bigint").alias(ROOT),
                F.col("_pair")["edge"].cast("bigint").alias(EDGE),
                # Of ragged anchors no pair can be trusted.
                F.when(F.length("_anchors") % PAIR_BYTES == 0, several_pairs(F.col("_anchors"))).alias(SEVERAL),
                F.when(F.col("_why").isNotNull(), _dead(inbox)).alias(DEAD),
            ],
        )

    def read(self, records: DataFrame) -> DataFrame:
        """Reads records.

        Args:
            records: as Spark's Kafka source gives them, with headers.

        Returns:
            The fields, named `_field_…`; `_source` if there are several; `_id`, the identity of the input; `_root` and
            `_edge` of its anchor, null if it has none or several; these are then in `_several`; and `_dead`: null, or
            what becomes of an input that cannot be used: `key`, `value`, `headers` and the `message` with which its
            trees fail. What of them there is can be `counted`.
        """
        for columns in self._steps:
            records = records.select(*columns)
        return observed(records, F.col(DEAD), F.col(ROOT), F.col(SEVERAL))


def _read(distinct: "_Distinct", inbox: Inbox, among: int) -> Column:
    payload = read_payload(F.col("value"), distinct.schema)
    mine = [source for source, schema in inbox.sources.items() if _Distinct(schema) == distinct]
    return payload if among == 1 else F.when(F.col(SOURCE).isin(mine), payload)


def _fields(inbox: Inbox, schemas: Mapping[str, StreamSchema]) -> list[Column]:
    def read(name: str) -> list[Column]:
        return [F.col(column)[name] for column, schema in schemas.items() if name in schema.names]

    return [F.coalesce(*read(field.name)).alias(FIELD + field.name) for field in inbox.fields]


def usable_rows(inputs: DataFrame, inbox: Inbox) -> DataFrame:
    """The rows that `transform` receives."""
    tracking = tracking_of(F.col(ID), roots_of(F.col(ROOT), F.col(SEVERAL)), F.col(EDGE))
    fields = [F.col(FIELD + field.name).alias(field.name) for field in inbox.fields]
    source = F.col(SOURCE) if len(inbox.sources) > 1 else F.lit(next(iter(inbox.sources), None)).alias(SOURCE)
    return inputs.where(F.col(DEAD).isNull()).select(*fields, source, tracking.alias(TRACKING))


def dead_letters(inputs: DataFrame, inbox: Inbox) -> DataFrame:
    """The records of `{topology}.dead-letters`."""
    return dead_letter_records(inputs, F.col(DEAD), inbox.manifest.topology)


def _why_dead(inbox: Inbox, unreadable: Column) -> Column:
    """Reason and detail of a dead letter; null for a record that can be used."""
    known = ", ".join(inbox.sources)
    anchors, source, value = F.col("_anchors"), F.col(SOURCE), F.col("value")
    length = F.length(anchors)

    def why(word: str, *detail: Column | str) -> Column:
        return reason(
            word, F.concat(*[F.lit(part) if isinstance(part, str) else part.cast("string") for part in detail])
        )

    return (
        F.when(
            length % PAIR_BYTES != 0,
            why("ragged-anchors", "the anchors header has ", length, f" bytes, which is no multiple of {PAIR_BYTES}"),
        )
        .when(
            ~are_of_one_tuple(anchors, F.col("_counts")),
            why("ragged-anchors", "the headers do not say that ", length, " bytes of anchors are those of one tuple"),
        )
        .when(source.isNull(), why("no-source", f"the record has no {SOURCE_HEADER} header"))
        .when(
            ~source.isin(list(inbox.sources)),
            why("unknown-source", f"{inbox.bolt} does not receive ", source, f": it receives {known}"),
        )
        .when(value.isNull(), why("no-payload", "the record has no value"))
        .when(unreadable, why("bad-payload", "the value is no payload of stream ", source))
    )


def _dead(inbox: Inbox) -> Column:
    """The dead letter, and the `message` with which its trees fail."""
    why = F.col("_why")
    letter = dead_letter(None, why, F.concat(F.lit(f"{inbox.bolt}/"), F.col("partition").cast("string")))
    message = F.concat(F.lit(f"{inbox.bolt}: dead letter, "), why["reason"], F.lit(": "), why["detail"])
    return letter.withField("message", message)


@dataclass(frozen=True, slots=True)
class _Distinct:
    """Streams that are read alike are read once."""

    schema: StreamSchema

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Distinct) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> str:
        return self.schema.stream.model_copy(update={"name": "any"}).model_dump_json()
