"""A fresh name and fresh topics for a topology, played by the test or of a module."""

import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.chaos.components import NAME
from tests.contract.real import RealWorld
from tests.kafka.ack_log import AckLog
from tests.kafka.kill_rig import Start, starter
from tests.kafka.sdk_rig import MODULE, Source, Use
from tests.kafka.topologies import SOURCE
from tests.unit.cli.running import Acker, call_acker


@pytest.fixture
def acker(bootstrap_servers: str) -> Acker:
    """Runs a command on the broker."""
    return partial(call_acker, servers=bootstrap_servers)


@pytest.fixture
def log(bootstrap_servers: str) -> Iterator[AckLog]:
    with AckLog(bootstrap_servers) as log:
        yield log


@pytest.fixture
def world(bootstrap_servers: str) -> RealWorld:
    return RealWorld(bootstrap_servers)


@pytest.fixture
def use(bootstrap_servers: str, monkeypatch: pytest.MonkeyPatch) -> Use:
    def use(topology: str, *partitions: int, servers: str = bootstrap_servers) -> Source:
        name = f"{topology.replace('_', '-')}-{uuid.uuid4().hex[:8]}"
        topics = {f"{name}-source-{number}": count for number, count in enumerate(partitions)}
        monkeypatch.setenv(NAME, name)
        monkeypatch.setenv(SOURCE, ",".join(topics))
        return Source(servers, f"{MODULE}:{topology}", topics)

    return use


@pytest.fixture
def nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """No process of the topology reports the brokers' time, so no command waits for it."""
    monkeypatch.setattr("inspection.observer._CLOCK_SECONDS", 0.0)


@pytest.fixture
def start(bootstrap_servers: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Start:
    return starter(bootstrap_servers, monkeypatch, tmp_path)
