"""What a component emits, and whether a DataFrame is that."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from spark_jobs.errors import TransformRefusedError
from spark_jobs.payloads import StreamSchema, fits, schema_of
from spark_jobs.routing import routes_of
from spark_jobs.tracking import FAIL, STREAM, TRACKING, TRACKING_TYPE
from tuple_tree.manifest import Manifest, Subscription

# Nodes of a logical plan that make at most one row of each row below them.
_ONE_FROM_ONE: Final = frozenset(
    {
        "Aggregate",
        "ArrowEvalPython",
        "BatchEvalPython",
        "Filter",
        "GlobalLimit",
        "LocalLimit",
        "Project",
        "RebalancePartitions",
        "Repartition",
        "RepartitionByExpression",
        "ResolvedHint",
        "Sort",
        "SubqueryAlias",
        "Window",
    }
)

# Nodes that make one row of each, and have one child.
_ALL_FROM_ALL: Final = frozenset({"Project", "ResolvedHint", "SubqueryAlias"})

# Those that may drop some, too.
_SOME_FROM_ALL: Final = _ALL_FROM_ALL | {"Filter"}


@dataclass(frozen=True, slots=True)
class Outputs:
    """The streams of a component, with who receives them.

    Attributes:
        manifest: of the topology.
        component: who emits.
        streams: schema and recipients (bolt, its tasks, its subscription) of each stream.
    """

    manifest: Manifest
    component: str
    streams: tuple[tuple[StreamSchema, tuple[tuple[str, int, Subscription], ...]], ...]

    @property
    def is_leaf(self) -> bool:
        """Whether nobody receives anything."""
        return not any(routes for _, routes in self.streams)

    @property
    def only_route(self) -> tuple[StreamSchema, tuple[str, int, Subscription]] | None:
        """The stream and its recipient, if each row makes exactly one delivery."""
        if len(self.streams) != 1 or len(self.streams[0][1]) != 1:
            return None
        schema, (route,) = self.streams[0]
        return None if route[2].grouping == "all" else (schema, route)

    def rows_of(self, tuples: int) -> int | None:
        """How many rows so many deliveries are of; None if rows differ in how many they have, or have none."""
        if not self.streams:
            return 0
        copies = {
            sum(tasks if subscription.grouping == "all" else 1 for _, tasks, subscription in routes)
            for _, routes in self.streams
        }
        return tuples // copies.pop() if len(copies) == 1 and 0 not in copies else None

    def source_of(self, stream: str) -> str:
        """What the `source` header of a stream's tuples says."""
        return f"{self.component}/{stream}"


def outputs_of(spark: SparkSession, manifest: Manifest, component: str) -> Outputs:
    """What a component emits."""
    streams = [
        (schema_of(spark, stream), tuple(routes_of(manifest, component, stream.name)))
        for stream in manifest.component(component).streams
    ]
    return Outputs(manifest, component, tuple(streams))


def check_result(result: Any, outputs: Outputs) -> None:
    """Checks what `transform` returned.

    Raises:
        TransformRefusedError: if it is no DataFrame, or one that cannot be emitted; the message says what to change.
    """
    where = f"transform of {outputs.component!r}"
    if not isinstance(result, DataFrame):
        raise TransformRefusedError(f"{where} returns a {type(result).__name__}: return the DataFrame of rows to emit")
    schema = result.schema
    if TRACKING not in schema.names:
        raise TransformRefusedError(
            f"{where} returns {_listed(schema)}, without {TRACKING}: keep that column, and in an aggregation merge it, "
            f'with merge_tracking().alias("{TRACKING}")'
        )
    if schema[TRACKING].dataType.simpleString() != TRACKING_TYPE.replace(" ", ""):
        raise TransformRefusedError(
            f"{where} returns a {schema[TRACKING].dataType.simpleString()} as {TRACKING}: keep that column as it is, "
            "and aggregate it with nothing but merge_tracking()"
        )
    for marked in (FAIL, STREAM):
        if marked in schema.names and schema[marked].dataType.simpleString() != "string":
            raise TransformRefusedError(
                f"{where} returns {marked} as {schema[marked].dataType.simpleString()}: it must be text"
            )
    if len(outputs.streams) > 1 and STREAM not in schema.names:
        names = ", ".join(each.stream.name for each, _ in outputs.streams)
        raise TransformRefusedError(f"{where} has streams {names}: say in column {STREAM} which one a row goes to")
    check_fields(schema, [each for each, _ in outputs.streams], where)


def check_fields(schema: StructType, streams: Sequence[StreamSchema], where: str) -> None:
    """Checks that a DataFrame has the fields of some streams.

    Raises:
        TransformRefusedError: if it has not.
    """
    for stream in streams:
        for field in stream.fields:
            told = f"field {field.name!r} of stream {stream.stream.name!r}"
            if schema.names.count(field.name) != 1:
                has = "twice" if field.name in schema.names else "not at all"
                raise TransformRefusedError(
                    f"{where} returns {_listed(schema)}, and {told} {has}: name one column {field.name!r}"
                )
            given = schema[field.name].dataType
            if not fits(given, field.dataType):
                raise TransformRefusedError(
                    f"{where} returns {told} as {given.simpleString()}: the topology declares "
                    f"{field.dataType.simpleString()}, so cast it"
                )


def _listed(schema: StructType) -> str:
    return "columns " + ", ".join(schema.names) if schema.names else "no columns"


def multiplies(result: DataFrame, rows: DataFrame) -> bool:
    """Whether the plan might make several rows of one input, so that rows with the same inputs need a number each.

    Only a plan of known nodes whose leaves are those of `rows` is known not to. Any other leaf, such as a cached,
    checkpointed or RDD-backed DataFrame, may hide an `explode`.
    """
    # PySpark has no other way to ask; the analysed and optimised plan is part of Spark's developer API.
    own = _leaves(rows)
    pending = [result._jdf.queryExecution().optimizedPlan()]
    while pending:
        node = pending.pop()
        children = _children(node)
        if children and node.nodeName().split(" ")[0] not in _ONE_FROM_ONE:
            return True
        if not children and not any(node.sameResult(leaf) for leaf in own):
            return True
        pending += children
    return False


def _leaves(rows: DataFrame) -> list[Any]:
    found, pending = [], [rows._jdf.queryExecution().optimizedPlan()]
    while pending:
        node = pending.pop()
        children = _children(node)
        pending += children
        if not children:
            found.append(node)
    return found


def _children(node: Any) -> list[Any]:
    children = node.children()
    return [children.apply(number) for number in range(children.size())]


def keeps_all(result: DataFrame, rows: DataFrame) -> bool:
    """Whether the plan makes exactly one row of each, as a `select` does."""
    return _made_by(_ALL_FROM_ALL, result, rows)


def keeps_some(result: DataFrame, rows: DataFrame) -> bool:
    """Whether the plan makes one row of each or none, as `select` and `where` do, and merges none."""
    return _made_by(_SOME_FROM_ALL, result, rows)


def _made_by(nodes: frozenset[str], result: DataFrame, rows: DataFrame) -> bool:
    node, end = result._jdf.queryExecution().analyzed(), rows._jdf.queryExecution().analyzed()
    while not node.equals(end):
        if node.nodeName() not in nodes:
            return False
        node = node.child()
    return True
