"""The embedded broker for real: it starts, keeps its records, and never outlives whoever started it."""

import io
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console

from local_kafka import BrokerStartError, DataDirInUseError, DownloadError, LocalKafka, LocalKafkaError
from local_kafka.distribution import (
    CACHE_VARIABLE,
    IVY_SETTINGS_VARIABLE,
    KAFKA_VERSION,
    Distribution,
    jar_names,
    provide_distribution,
)
from local_kafka.java import find_java
from local_kafka.ports import free_port
from tests.waiting import eventually


DEADLINE_SECONDS = 30.0
TOPIC = "records"
START_AND_WAIT = """
import os, sys
from local_kafka import LocalKafka

kafka = LocalKafka()
kafka.start()
forked = os.fork() if sys.argv[1:] == ["fork"] else None
if forked == 0:
    sys.stdin.read()  # Holds a copy of everything the parent has, and lives on.
else:
    print(kafka.pid, kafka.log_path.parent, flush=True)
    sys.stdin.read()
"""


def is_alive(pid: int) -> bool:
    # A process that ended but whose new parent has not looked at it yet is as good as gone.
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return bool(state.strip()) and not state.strip().startswith("Z")


def running_pid(kafka: LocalKafka) -> int:
    pid = kafka.pid
    assert pid is not None
    return pid


def parent_of(pid: int) -> int:
    return int(subprocess.run(["ps", "-o", "ppid=", "-p", str(pid)], capture_output=True, text=True, check=True).stdout)


def create_topic(kafka: LocalKafka) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(timeout=DEADLINE_SECONDS)


def produce(kafka: LocalKafka, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "enable.idempotence": True, "log_level": 0})
    producer.produce(TOPIC, value, partition=0)
    assert producer.flush(DEADLINE_SECONDS) == 0


def consume(kafka: LocalKafka, count: int) -> list[bytes | None]:
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": "test",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    try:
        consumer.subscribe([TOPIC])
        values: list[bytes | None] = []

        def enough() -> bool:
            values.extend(message.value() for message in consumer.consume(count, timeout=0.1) if not message.error())
            return len(values) >= count

        eventually(enough, "all records")
        return values
    finally:
        consumer.close()


@contextmanager
def parent_process(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], int, Path]]:
    """Another process that has started a broker: the process, the broker's pid and its directory."""
    with subprocess.Popen(
        [sys.executable, "-c", START_AND_WAIT, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        try:
            assert parent.stdout is not None
            pid, directory = parent.stdout.readline().split()
            yield parent, int(pid), Path(directory)
        finally:
            parent.kill()


def test_a_record_goes_through_and_nothing_is_left() -> None:
    with LocalKafka() as kafka:
        pid = running_pid(kafka)
        # Ctrl-C in a terminal goes to the foreground process group, which the broker is not in.
        assert os.getsid(pid) != os.getsid(0)
        guardian = parent_of(pid)
        assert kafka.log_path is not None
        directory = kafka.log_path.parent
        create_topic(kafka)
        produce(kafka, b"one")
        assert consume(kafka, 1) == [b"one"]
        assert "Stabilized group test" in kafka.log_path.read_text()
        with pytest.raises(LocalKafkaError, match="is running"):
            kafka.start()
    assert not kafka.is_running
    assert not is_alive(pid)
    assert not is_alive(guardian)
    assert not directory.exists()


def test_a_kept_directory_and_a_kept_port_outlast_a_stop_and_a_kill(tmp_path: Path) -> None:
    # A space in the path, as on many a Mac.
    data_dir = tmp_path / "kept data"
    kafka = LocalKafka(data_dir=data_dir)
    try:
        kafka.start()
        address = kafka.bootstrap_servers
        create_topic(kafka)
        produce(kafka, b"before the stop")
        kafka.stop()
        kafka.start()
        assert kafka.bootstrap_servers == address
        produce(kafka, b"before the kill")
        kafka.kill()
        assert kafka.pid is None
        kafka.start()
        assert kafka.bootstrap_servers == address
        assert consume(kafka, 2) == [b"before the stop", b"before the kill"]
    finally:
        kafka.stop()
    assert data_dir.is_dir()


def test_a_temporary_directory_outlasts_a_kill() -> None:
    with LocalKafka() as kafka:
        create_topic(kafka)
        produce(kafka, b"one")
        kafka.kill()
        kafka.start()
        assert consume(kafka, 1) == [b"one"]


def test_a_directory_in_use_is_refused_and_named(tmp_path: Path) -> None:
    with LocalKafka(data_dir=tmp_path) as kafka:
        with pytest.raises(DataDirInUseError) as caught:
            LocalKafka(data_dir=tmp_path).start()
        assert f"process {kafka.pid} at {kafka.bootstrap_servers}" in str(caught.value)
        assert caught.value.data_dir == tmp_path
        assert kafka.is_running


def test_a_port_in_use_is_refused_and_named() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        with pytest.raises(LocalKafkaError, match=f"Port {port} on 127.0.0.1 is taken"):
            LocalKafka(port=port).start()


def test_a_port_lost_between_choosing_and_listening_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    # The race itself cannot be won on demand: the first choice is a port that is taken.
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        taken = server.getsockname()[1]
        choices = [taken]
        monkeypatch.setattr(
            "local_kafka.broker.free_port", lambda taken=(): choices.pop() if choices else free_port(taken)
        )
        with LocalKafka() as kafka:
            assert kafka.bootstrap_servers != f"127.0.0.1:{taken}"


def test_a_broker_that_does_not_start_shows_its_log() -> None:
    kafka = LocalKafka(properties={"num.io.threads": "none"})
    with pytest.raises(BrokerStartError) as caught:
        kafka.start()
    error = caught.value
    assert "num.io.threads" in str(error)
    assert any("num.io.threads" in line for line in error.log_tail)
    assert f"The whole log: {error.log_path}" in str(error)
    # The log outlives the temporary directory.
    assert "num.io.threads" in error.log_path.read_text()
    error.log_path.unlink()
    assert not kafka.is_running


def test_a_broker_that_is_too_slow_is_ended(tmp_path: Path) -> None:
    kafka = LocalKafka(data_dir=tmp_path)
    with pytest.raises(BrokerStartError, match=r"did not answer at 127.0.0.1:[0-9]+ in time"):
        kafka.start(timeout=0)
    # Ended indeed: the directory can be used at once.
    with kafka:
        assert kafka.is_running


@pytest.mark.parametrize("arguments", [[], ["fork"]], ids=["alone", "with a child that has copies of its pipes"])
def test_a_killed_parent_takes_the_broker_with_it(arguments: list[str]) -> None:
    with parent_process(*arguments) as (parent, pid, directory):
        guardian = parent_of(pid)
        parent.kill()
        parent.wait()
        eventually(lambda: not is_alive(pid), "java to end")
        eventually(lambda: not is_alive(guardian), "the guardian to end")
        eventually(lambda: not directory.exists(), "its directory to be removed")


def test_a_killed_guardian_takes_the_broker_with_it(tmp_path: Path) -> None:
    with LocalKafka(data_dir=tmp_path) as kafka:
        pid = running_pid(kafka)
        os.kill(parent_of(pid), signal.SIGKILL)
        if sys.platform != "linux":
            # Only Linux ends a process with the one that started it; elsewhere that is left to the user.
            os.kill(pid, signal.SIGKILL)
        eventually(lambda: not is_alive(pid), "java to end")
        eventually(lambda: not kafka.is_running, "the broker to be seen as ended")
        kafka.start()
        assert kafka.is_running


def test_a_broker_that_hangs_is_killed_when_time_is_up() -> None:
    kafka = LocalKafka()
    kafka.start()
    pid = running_pid(kafka)
    os.kill(pid, signal.SIGSTOP)
    kafka.stop(timeout=0.2)
    assert not is_alive(pid)


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    """Ivy settings whose one repository is the cache of this machine."""
    cached = provide_distribution(find_java(), Console(quiet=True)).directory
    settings = tmp_path / "mirror.xml"
    settings.write_text(
        f"""<ivysettings>
          <settings defaultResolver="mirror"/>
          <resolvers><filesystem name="mirror">
            <artifact pattern="{cached}/[artifact]-[revision].[ext]"/>
          </filesystem></resolvers>
        </ivysettings>"""
    )
    return settings


def test_a_damaged_cache_heals(tmp_path: Path, mirror: Path) -> None:
    java = find_java()
    environ = {CACHE_VARIABLE: str(tmp_path / "cache"), IVY_SETTINGS_VARIABLE: str(mirror)}
    distribution = provide_distribution(java, Console(quiet=True), environ)
    assert distribution.is_complete
    (distribution.directory / min(jar_names())).write_bytes(b"")
    leftover = distribution.directory.with_name(f"{distribution.directory.name}.tmp-killed")
    leftover.mkdir()
    assert provide_distribution(java, Console(quiet=True), environ).is_complete
    assert not leftover.exists()
    assert len(list((tmp_path / "cache").iterdir())) == 2  # the jars and the lock


def test_of_two_processes_one_fetches(tmp_path: Path, mirror: Path) -> None:
    environ = {**os.environ, CACHE_VARIABLE: str(tmp_path / "cache"), IVY_SETTINGS_VARIABLE: str(mirror)}
    program = """
from rich.console import Console
from local_kafka.distribution import provide_distribution
from local_kafka.java import find_java
from local_kafka.ports import free_port
assert provide_distribution(find_java(), Console(width=200)).is_complete
"""
    both = [
        subprocess.Popen([sys.executable, "-c", program], env=environ, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    shown = "".join(process.communicate(timeout=60)[0] for process in both)
    assert [process.returncode for process in both] == [0, 0]
    assert shown.count(f"Fetched Apache Kafka {KAFKA_VERSION}") == 1


def test_no_network_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Nobody listens at port 9, so Maven Central is out of reach.
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=9")
    shown = io.StringIO()
    with pytest.raises(DownloadError) as caught:
        provide_distribution(find_java(), Console(file=shown), {CACHE_VARIABLE: str(tmp_path)})
    message = str(caught.value)
    assert "could not be fetched from Maven Central: " in message
    assert "Connection refused" in message
    assert IVY_SETTINGS_VARIABLE in message
    assert "\n" not in message
    assert not Distribution(tmp_path / f"kafka-{KAFKA_VERSION}").directory.exists()
