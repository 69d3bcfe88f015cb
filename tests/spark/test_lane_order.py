"""The batches of a lane come in the order of their numbers, however many they are: what comes late is dropped."""

from collections import defaultdict

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from spark_jobs.ack_batches import ENTRIES, FAILS, AckLanes
from spark_jobs.plans import fixed_plans
from tests.spark.topologies import manifest_of
from tuple_tree.codec import decode_ack_batch
from tuple_tree.messages import SpoutTask

BATCHES = 5


def entries(spark: SparkSession, count: int) -> DataFrame:
    return spark.range(count).select(F.xxhash64("id").alias("root"), F.xxhash64("id", F.lit(1)).alias("val"))


def written(spark: SparkSession, records: DataFrame) -> dict[tuple[str, int], list[tuple[int, int]]]:
    """Writer and partition → task and number of each batch, in the order in which the tasks hold them."""
    found = defaultdict(list)
    with fixed_plans(spark):
        # Beside other records, as in a micro-batch.
        rows = records.union(records.where("false")).select("partition", "value", F.spark_partition_id().alias("task"))
        for row in rows.collect():
            batch = decode_ack_batch(bytes(row["value"]))
            found[batch.writer, row["partition"]].append((row["task"], batch.sequence))
    return found


@pytest.mark.parametrize(("partitions", "lanes"), [(1, 1), (4, 1), (4, 2)])
@pytest.mark.parametrize("kind", ["inits", "acks", "fails"])
def test_one_task_writes_the_batches_of_a_lane_in_order(
    spark: SparkSession, kind: str, partitions: int, lanes: int
) -> None:
    packing = AckLanes(manifest_of("order", ack_partitions=partitions), "split", bytes(16), lanes)
    count = (FAILS if kind == "fails" else ENTRIES) * BATCHES * partitions * lanes
    rows = entries(spark, count)
    if kind == "inits":
        records = packing.inits(7, rows, count, SpoutTask("notices", 0, 1_000))
    elif kind == "acks":
        records = packing.acks(7, rows, count)
    else:
        records = packing.acks(7, rows.withColumn("message", F.lit("no")), count, count)
    found = written(spark, records)
    assert len(found) == partitions * lanes
    for lane, batches in found.items():
        assert len({task for task, _ in batches}) == 1, f"several tasks write {lane}"
        numbers = [number for _, number in batches]
        assert len(numbers) == BATCHES, lane
        assert numbers == sorted(set(numbers)), f"{lane} is out of order"
