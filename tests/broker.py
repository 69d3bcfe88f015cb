"""The Kafka that the tests share: `ACKER_TEST_KAFKA` is `embedded` (the default), `container` or `external`.

Tests that stop, configure or secure a broker start their own `LocalKafka`, for any value of the variable.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest

from local_kafka import LocalKafka

KIND_VARIABLE: Final = "ACKER_TEST_KAFKA"
SERVERS_VARIABLE: Final = "ACKER_KAFKA__BOOTSTRAP_SERVERS"
KINDS: Final = ("embedded", "container", "external")
KILLED: Final = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "500"}
"""Properties of a broker that is killed: it may not register again before its last session has ended."""


def chosen() -> str:
    """Returns one of `KINDS`.

    Raises:
        pytest.UsageError: if the variables contradict each other.
    """
    kind, servers = os.environ.get(KIND_VARIABLE, "embedded"), os.environ.get(SERVERS_VARIABLE)
    if kind not in KINDS:
        raise pytest.UsageError(f"{KIND_VARIABLE}={kind}: set it to {', '.join(KINDS)}")
    if kind == "external" and not servers:
        raise pytest.UsageError(f"{KIND_VARIABLE}=external needs the address of a cluster: set {SERVERS_VARIABLE}")
    if kind != "external" and servers:
        raise pytest.UsageError(
            f"{SERVERS_VARIABLE} is set, but {KIND_VARIABLE}={kind}: set it to external, or unset {SERVERS_VARIABLE}"
        )
    return kind


@contextmanager
def running(kind: str) -> Iterator[str]:
    """Runs the broker, unless it is external, and returns its bootstrap servers."""
    if kind == "external":
        yield os.environ[SERVERS_VARIABLE]
    elif kind == "container":
        # Docker's client is slow to import, and most runs need none.
        from tests.broker_container import kafka_container

        with kafka_container() as servers:
            yield servers
    else:
        with LocalKafka() as kafka:
            yield kafka.bootstrap_servers
