"""One real broker for the tests of Spark jobs, and one small Spark session a module."""

import gc
import os
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import spark_jobs
from local_kafka import LocalKafka

SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.driver.memory": "1g",
    "spark.sql.streaming.numRecentProgressUpdates": "20",
}


@pytest.fixture(scope="session")
def bootstrap_servers() -> Iterator[str]:
    given = os.environ.get("ACKER_KAFKA__BOOTSTRAP_SERVERS")
    if given:
        yield given
        return
    with LocalKafka() as kafka:
        yield kafka.bootstrap_servers


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    # The second number is how often a task may fail, which local mode takes from nowhere else.
    session = spark_jobs.session("tests", "local[2,3]", SETTINGS)
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
    gc.collect()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/spark/" in item.path.as_posix():
            item.add_marker(pytest.mark.spark)
            # PySpark leaves the sockets of `collect` and of its gateway to the garbage collector.
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))
