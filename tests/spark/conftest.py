"""One small Spark session for all tests of this folder, which run in one process; the broker is that of the run."""

import gc
import os
from collections.abc import Iterator
from typing import Final

import pytest
from pyspark.sql import SparkSession

import spark_jobs
from acker_worker.ledger import warm_up

# Most of what Spark runs here was generated a moment ago and runs a few times: to optimise it is half of the work.
_JAVA = "-XX:TieredStopAtLevel=1"
SETTINGS = {
    "spark.sql.shuffle.partitions": "1",
    "spark.ui.enabled": "false",
    "spark.driver.memory": "1g",
    "spark.sql.streaming.numRecentProgressUpdates": "20",
}

_OWN_DRIVERS: Final = ("test_submit", "test_examples", "test_kills")


def pytest_configure() -> None:
    # For each driver that a test starts, in this process or in another one.
    os.environ["SPARK_SUBMIT_OPTS"] = f"{os.environ.get('SPARK_SUBMIT_OPTS', '')} {_JAVA}".strip()


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    # Numba searches for plug-ins along the path of imports, on which Spark puts the jars of its packages.
    warm_up()
    # The second number is how often a task may fail, which local mode takes from nowhere else.
    session = spark_jobs.session("tests", "local[2,3]", SETTINGS)
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
    gc.collect()


# Before pytest-xdist reads the groups.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/spark/" in item.path.as_posix():
            # What starts drivers of its own does not need to wait for the session.
            is_alone = item.path.stem in _OWN_DRIVERS and "spark" not in getattr(item, "fixturenames", ())
            group = "spark-submit" if is_alone else "spark"
            item.add_marker(pytest.mark.xdist_group(group))
            # PySpark leaves the sockets of `collect` and of its gateway to the garbage collector.
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))
