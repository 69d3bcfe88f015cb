"""The embedded broker: it starts, keeps its records, and ends with the process that started it."""

import io
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console

from local_kafka import BrokerStartError, DataDirInUseError, LocalKafka, LocalKafkaError, distribution
from local_kafka.distribution import (
    CACHE_VARIABLE,
    KAFKA_VERSION,
    REPOSITORY_VARIABLE,
    is_complete,
    jar_names,
    provide_jars,
)
from local_kafka.maven import listed
from tests.broker import KILLED
from tests.kafka.sdk_rig import records, write
from tests.topics import create_topics
from tests.unit.cli.running import command_line, is_alive
from tests.waiting import eventually

TOPIC = "records"
START_AND_WAIT = """
import os, sys
from local_kafka import LocalKafka

kafka = LocalKafka()
kafka.start()
if os.fork():
    print(kafka.pid, kafka.log_path.parent, flush=True)
sys.stdin.read()
"""


def running_pid(kafka: LocalKafka) -> int:
    pid = kafka.pid
    assert pid is not None
    return pid


def parent_of(pid: int) -> int:
    return int(psutil.Process(pid).ppid())


@pytest.mark.exhaustive
def test_records_survive_a_kill_and_processes_end_with_a_stop(tmp_path: Path) -> None:
    # With a space in the path.
    data_dir = tmp_path / "kept data"
    kafka = LocalKafka(data_dir=data_dir, properties=KILLED)
    try:
        kafka.start()
        address, pid = kafka.bootstrap_servers, running_pid(kafka)
        # Ctrl-C in a terminal goes to the foreground process group, which the broker is not in.
        assert os.getsid(pid) != os.getsid(0)
        with pytest.raises(LocalKafkaError, match="is running"):
            kafka.start()
        with pytest.raises(DataDirInUseError, match=f"process {pid} at {address}") as caught:
            LocalKafka(data_dir=data_dir).start()
        assert caught.value.data_dir == data_dir
        quiet = {"bootstrap.servers": address, "log_level": 0}
        create_topics(quiet, [NewTopic(TOPIC, 1, 1)])
        write(quiet, TOPIC, [b"before the kill"])
        kafka.kill()
        assert kafka.pid is None
        assert not is_alive(pid)
        kafka.start()
        assert kafka.bootstrap_servers == address
        assert [record.value() for record in records(quiet, TOPIC)] == [b"before the kill"]
        pid = running_pid(kafka)
        os.kill(parent_of(pid), signal.SIGKILL)
        eventually(lambda: not is_alive(pid), "java to end with its guardian")
        eventually(lambda: not kafka.is_running, "the broker to be reported as ended")
        kafka.start()
        pid, guardian = running_pid(kafka), parent_of(running_pid(kafka))
    finally:
        kafka.stop()
    assert not kafka.is_running
    assert not is_alive(pid)
    assert not is_alive(guardian)
    assert data_dir.is_dir()


def test_a_port_in_use_is_an_error_with_the_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(LocalKafkaError, match=f"Port {port} on 127.0.0.1 is already in use"):
            LocalKafka(port=port).start()


@pytest.mark.exhaustive
def test_a_broker_that_does_not_start_shows_its_log(tmp_path: Path) -> None:
    kafka = LocalKafka(properties={"num.io.threads": "none"})
    with pytest.raises(BrokerStartError) as caught:
        kafka.start()
    error = caught.value
    assert "num.io.threads" in str(error)
    assert f"The whole log: {error.log_path}" in str(error)
    # The log outlives the temporary directory.
    assert "num.io.threads" in error.log_path.read_text()
    error.log_path.unlink()
    assert not kafka.is_running

    slow = LocalKafka(data_dir=tmp_path)
    with pytest.raises(BrokerStartError, match=r"did not answer at 127.0.0.1:[0-9]+ in time"):
        slow.start(timeout=0)
    # It was ended: the directory can be used at once.
    with slow:
        assert slow.is_running
        pid = running_pid(slow)
        os.kill(pid, signal.SIGSTOP)
        slow.stop(timeout=0.2)
        assert not is_alive(pid)


@pytest.mark.exhaustive
def test_the_broker_ends_with_a_killed_parent() -> None:
    """Although another child has copies of its pipes, and keeps running."""
    command = [sys.executable, "-c", START_AND_WAIT]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        try:
            assert parent.stdout is not None
            pid, directory = parent.stdout.readline().split()
            guardian = parent_of(int(pid))
        finally:
            parent.kill()
        parent.wait()
        eventually(lambda: not is_alive(int(pid)), "java to end")
        eventually(lambda: not is_alive(guardian), "the guardian to end")
        eventually(lambda: not Path(directory).exists(), "its directory to be removed")


@pytest.fixture
def mirror(tmp_path: Path) -> str:
    """The address of a Maven repository with the jars from the cache of this machine."""
    cached, repository = provide_jars(Console(quiet=True)), tmp_path / "mirror"
    for path in listed((Path(distribution.__file__).parent / "kafka-jars.txt").read_text()):
        (repository / path).parent.mkdir(parents=True, exist_ok=True)
        (repository / path).symlink_to(cached / Path(path).name)
    return repository.as_uri()


@pytest.mark.exhaustive
def test_the_first_broker_prepares_the_archive_of_later_ones(
    tmp_path: Path, mirror: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setenv(REPOSITORY_VARIABLE, mirror)
    output = io.StringIO()
    started = []
    for _ in range(2):
        with LocalKafka(console=Console(file=output, width=200)) as kafka:
            command = command_line(running_pid(kafka))
            cluster = AdminClient({"bootstrap.servers": kafka.bootstrap_servers}).list_topics(timeout=10).cluster_id
            started.append((cluster, "-XX:SharedArchiveFile=" in command))
    assert output.getvalue().count("Preparing Apache Kafka") == 1
    assert [archived for _, archived in started] == [True, True]
    assert len({cluster for cluster, _ in started}) == 2


@pytest.mark.exhaustive
def test_one_of_two_processes_downloads_the_jars_and_a_damaged_cache_is_repaired(tmp_path: Path, mirror: str) -> None:
    cache = {CACHE_VARIABLE: str(tmp_path / "cache"), REPOSITORY_VARIABLE: mirror}
    program = """
from rich.console import Console
from local_kafka.distribution import is_complete, provide_jars
assert is_complete(provide_jars(Console(width=200)))
"""
    command = [sys.executable, "-c", program]
    both = [subprocess.Popen(command, env={**os.environ, **cache}, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    shown = "".join(process.communicate(timeout=60)[0] for process in both)
    assert [process.returncode for process in both] == [0, 0]
    assert shown.count(f"Downloaded Apache Kafka {KAFKA_VERSION}") == 1

    jars = provide_jars(Console(quiet=True), cache)
    (jars / min(jar_names())).write_bytes(b"")
    leftover = jars.with_name(f"{jars.name}.tmp-killed")
    leftover.mkdir()
    assert is_complete(provide_jars(Console(quiet=True), cache))
    assert not leftover.exists()
    assert len(list((tmp_path / "cache").iterdir())) == 2  # the jars and the lock
