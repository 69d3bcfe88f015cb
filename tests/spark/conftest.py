"""One small Spark session a module; the broker is that of `tests/conftest.py`."""

import gc
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import spark_jobs

_OPTIONS = "spark.driver.extraJavaOptions"
SETTINGS = {
    # Most of what Spark runs here was generated a moment ago and runs a few times: to optimise it is half of the work.
    _OPTIONS: f"{spark_jobs.required_settings()[_OPTIONS]} -XX:TieredStopAtLevel=1",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.driver.memory": "1g",
    "spark.sql.streaming.numRecentProgressUpdates": "20",
}


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
