"""The fixtures of several tests of Spark jobs."""

import pytest

from tests.unit.spark.outcomes_rig import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()
