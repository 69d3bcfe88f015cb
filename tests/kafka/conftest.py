"""One real broker for all tests in this folder: a given cluster, or the embedded Kafka."""

import os
from collections.abc import Iterator

import pytest

from local_kafka import LocalKafka


@pytest.fixture(scope="session")
def bootstrap_servers() -> Iterator[str]:
    given = os.environ.get("ACKER_KAFKA__BOOTSTRAP_SERVERS")
    if given:
        yield given
        return
    with LocalKafka() as kafka:
        yield kafka.bootstrap_servers


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/kafka/" in item.path.as_posix():
            item.add_marker(pytest.mark.kafka)
