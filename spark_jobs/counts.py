"""What a micro-batch holds, counted while it is made."""

from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from spark_jobs.plans import fixed_plans

_OBSERVED: Final = "kafka-acker inputs"


@dataclass(frozen=True, slots=True)
class Counts:
    """What a micro-batch holds.

    Attributes:
        rows: inputs.
        dead: those that cannot be used.
        single: those with one anchor.
        several: anchors of those that have several.
        dead_anchors: anchors of those that cannot be used.
        deliveries: and rows that failed.
        failed: rows that failed.
        several_roots: roots of deliveries that have several.
        failed_roots: roots of rows that failed.
    """

    rows: int
    dead: int
    single: int
    several: int
    dead_anchors: int
    deliveries: int
    failed: int
    several_roots: int
    failed_roots: int

    @property
    def anchors(self) -> int:
        """Those of all inputs."""
        return self.single + self.several

    @property
    def fails(self) -> int:
        """Entries that tell of a fail."""
        return self.dead_anchors + self.failed_roots


def observed(inputs: DataFrame, dead: Column, root: Column, several: Column) -> DataFrame:
    """Inputs that are counted when they are made, whether they are kept or not."""
    anchors = _size(several) + root.isNotNull().cast("int")
    return inputs.observe(
        _OBSERVED,
        F.count(F.lit(1)).alias("rows"),
        F.count_if(dead.isNotNull()).alias("dead"),
        F.count(root).alias("single"),
        F.sum(_size(several)).alias("several"),
        F.sum(F.when(dead.isNotNull(), anchors).otherwise(0)).alias("dead_anchors"),
    )


def counted(deliveries: DataFrame) -> Counts:
    """Makes and counts what is kept; the first action that touches it.

    Args:
        deliveries: kept, and made of inputs that are `observed`.
    """
    fail, several, root = F.col("fail").isNotNull(), _size(F.col("several")), F.col("root")
    summed = deliveries.agg(
        F.count(F.lit(1)).alias("deliveries"),
        F.count_if(fail).alias("failed"),
        F.sum(several).alias("several_roots"),
        F.sum(F.when(fail, several + root.isNotNull().cast("int")).otherwise(0)).alias("failed_roots"),
    )
    with fixed_plans(deliveries.sparkSession):
        sums = summed.collect()[0].asDict()
    return Counts(**{name: count or 0 for name, count in {**sums, **_observations(summed)}.items()})


def _observations(summed: DataFrame) -> dict[str, int]:
    # An Observation of PySpark's waits for an event that not every action has; the query itself knows.
    seen = summed._jdf.queryExecution().observedMetrics().apply(_OBSERVED)
    names = seen.schema().fieldNames()
    return {str(name): 0 if seen.isNullAt(number) else int(seen.getLong(number)) for number, name in enumerate(names)}


def _size(array: Column) -> Column:
    return F.coalesce(F.size(array), F.lit(0))
