"""`LocalKafka`: one real Kafka broker on this machine."""

import os
import shutil
import tempfile
import time
import weakref
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from rich.console import Console

from local_kafka.distribution import Prepared, prepare, provide_jars
from local_kafka.errors import BrokerStartError, LocalKafkaError
from local_kafka.java import find_java
from local_kafka.process import BrokerProcess, Storage, keep_log
from local_kafka.properties import (
    HOST,
    Security,
    broker_properties,
    check_overrides,
    free_port,
    is_free,
    render,
)

_LOG4J_CONFIG = Path(__file__).parent / "log4j2.properties"
_PORT_ATTEMPTS = 5
_PORT_TAKEN = "Address already in use"
_ANSWER_SECONDS = 0.25
_WAKE_SECONDS = 2.0
_ONCE_SECONDS = 60.0
Jvm = Literal["quick", "server"]
"""How Java runs: for a broker that lives for minutes, or as Kafka's own start script has it."""

_TUNING: dict[Jvm, tuple[str, ...]] = {
    # Measured: the simple compiler and collector halve the CPU time of a start, and of 400,000 records as well.
    "quick": ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
    "server": ("-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35"),
}
_JVM_OPTIONS = (
    "-XX:-UsePerfData",
    f"-Dlog4j2.configurationFile={_LOG4J_CONFIG.as_uri()}",
    "-Djava.awt.headless=true",
)


class LocalKafka:
    """A single Kafka broker, its own controller, on 127.0.0.1.

    As a context manager it is started on entry and stopped on exit:

        with LocalKafka() as kafka:
            Producer({"bootstrap.servers": kafka.bootstrap_servers})

    It ends with this process. Its port stays the same over `stop`, `kill` and `start`. One instance is for one thread
    at a time.

    Args:
        data_dir: Directory of its files, which the next start uses again; by default a temporary one that `stop`
            removes.
        port: Where it listens; a free one by default.
        properties: Broker properties, over those for development (see `local_kafka.properties`).
        security: Users and an authoriser; without it, every client may connect and do everything.
        heap: The largest heap of Java, as in `-Xmx`.
        jvm: `server` for a broker that runs for long, or under load.
        console: Shows the progress of the first download; standard error by default.

    Raises:
        ValueError: `properties` has one that `LocalKafka` sets itself.
    """

    def __init__(
        self,
        *,
        data_dir: Path | None = None,
        port: int | None = None,
        properties: Mapping[str, str] | None = None,
        security: Security | None = None,
        heap: str = "512m",
        jvm: Jvm = "quick",
        console: Console | None = None,
    ) -> None:
        self._properties = dict(properties or {})
        check_overrides(self._properties)
        self._security = security
        self._certificate_port: int | None = None
        self._data_dir = data_dir.absolute() if data_dir is not None else None
        self._port = port
        self._heap = heap
        self._jvm = jvm
        self._console = console if console is not None else Console(stderr=True)
        self._storage: Storage | None = None
        self._process: BrokerProcess | None = None
        self._remove_temporary: weakref.finalize[..., LocalKafka] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def bootstrap_servers(self) -> str:
        """Where clients reach it: `127.0.0.1:PORT`; an error before the first start, unless a port was given."""
        if self._port is None:
            raise LocalKafkaError("The broker has no address before its first start: call start() first.")
        return f"{HOST}:{self._port}"

    @property
    def certificate_servers(self) -> str:
        """Where users with a certificate reach a broker with `security`; users with a password take the other one."""
        if self._certificate_port is None:
            raise LocalKafkaError("The broker has no address for certificates: give it a Security, and call start().")
        return f"{HOST}:{self._certificate_port}"

    @property
    def is_running(self) -> bool:
        """Whether the broker's process runs."""
        return self._process is not None and self._process.is_running

    @property
    def pid(self) -> int | None:
        """The process id of the broker's Java; None while it does not run."""
        return self._process.pid if self._process is not None and self.is_running else None

    @property
    def log_path(self) -> Path | None:
        """The broker's log; None while there is no directory for it."""
        return self._storage.log_path if self._storage is not None else None

    def start(self, timeout: float = 60) -> None:
        """Start the broker and return when it answers.

        Args:
            timeout: Seconds until it must answer; a download, which happens once, does not count.

        Raises:
            LocalKafkaError: It could not be started; `local_kafka.errors` has the reasons.
        """
        if self.is_running:
            raise LocalKafkaError(f"The broker at {self.bootstrap_servers} is running: stop() it before start().")
        self.kill()  # Of a broker that has ended by itself a guardian may be left, and the reverse.
        if self._port is not None:
            _check_free(self._port)  # Before a download, which would be for nothing.
        java = find_java()
        prepared = prepare(java, provide_jars(self._console), self._console, _run_once)
        try:
            self._start(prepared, timeout)
        except BaseException as error:
            if isinstance(error, BrokerStartError) and self._remove_temporary is not None:
                error.log_path = keep_log(error.log_path)
            self._forget_temporary()
            raise

    def stop(self, timeout: float = 15) -> None:
        """Stop the broker if it runs; kill it after `timeout` seconds."""
        if self._process is not None:
            if self._remove_temporary is None:
                self._process.stop(timeout)
            else:
                self._process.kill()  # Nothing of it is kept, so it has nothing to write.
            self._process = None
        self._forget_temporary()

    def kill(self) -> None:
        """Kill the broker; its files stay for the next `start`."""
        if self._process is not None:
            self._process.kill()
            self._process = None

    def _open_storage(self) -> Storage:
        if self._storage is None:
            root = self._data_dir
            if root is None:
                root = Path(tempfile.mkdtemp(prefix="kafka-acker-"))
                # For a program that does not call stop().
                self._remove_temporary = weakref.finalize(self, shutil.rmtree, root, ignore_errors=True)
            self._storage = Storage(root)
        return self._storage

    def _forget_temporary(self) -> None:
        if self._remove_temporary is not None:
            self._remove_temporary()
            self._remove_temporary = None
            self._storage = None

    def _start(self, prepared: Prepared, timeout: float) -> None:
        storage, deadline = self._open_storage(), time.monotonic() + timeout
        fixed = self._port
        for attempt in range(1, _PORT_ATTEMPTS + 1):
            if fixed is not None:
                _check_free(fixed)
            port = free_port() if fixed is None else fixed
            if self._security is not None and (fixed is None or self._certificate_port is None):
                self._certificate_port = free_port(taken=[port])
            process = self._launch(prepared, storage, port)
            try:
                _wait_until_ready(process, storage, self._admin_settings(port), deadline)
            except BaseException as error:
                process.kill()
                # Another process may take the port before the broker listens there; then another one is chosen.
                taken = isinstance(error, BrokerStartError) and any(_PORT_TAKEN in line for line in error.log_tail)
                if not taken or attempt == _PORT_ATTEMPTS:
                    raise
            else:
                self._port, self._process = port, process
                return

    def _admin_settings(self, port: int) -> dict[str, Any]:
        if self._security is None:
            return {"bootstrap.servers": f"{HOST}:{port}"}
        return {"bootstrap.servers": self.certificate_servers, **self._security.client_settings()}

    def _launch(self, prepared: Prepared, storage: Storage, port: int) -> BrokerProcess:
        secured = {} if self._security is None else self._security.properties()
        properties = broker_properties(
            port=port,
            controller_port=free_port(taken=[port, self._certificate_port]),
            certificate_port=self._certificate_port,
            log_dir=storage.log_dir,
            overrides={**secured, **self._properties},
        )
        command = [
            str(prepared.java.executable),
            f"-Xmx{self._heap}",
            *_TUNING[self._jvm],
            *_JVM_OPTIONS,
            *prepared.java_options,
            f"-Djava.io.tmpdir={storage.temporary_dir}",
            *("-cp", f"{prepared.jars}/*", "kafka.Kafka", str(storage.config_path)),
        ]
        lock = storage.lock()
        try:
            storage.format(prepared.formatted)
            storage.config_path.write_text(render(properties), encoding="ascii")
            process = BrokerProcess(
                command, storage=storage, lock=lock, remove_when_orphaned=self._remove_temporary is not None
            )
            storage.name_owner(lock, f"process {process.pid} at {HOST}:{port}")
        finally:
            # From here on the broker's own copy of the descriptor holds the lock.
            os.close(lock)
        return process


def _check_free(port: int) -> None:
    if not is_free(port):
        raise LocalKafkaError(
            f"Port {port} on {HOST} is already in use: end what listens there, choose another port, or none for a free "
            "one (acker kafka --port, elsewhere --set local_kafka.port=, or ACKER_LOCAL_KAFKA__PORT)."
        )


def _run_once(root: Path, prepared: Prepared) -> None:
    kafka = LocalKafka(data_dir=root)
    kafka._start(prepared, _ONCE_SECONDS)
    kafka.stop(_ONCE_SECONDS)


def _wait_until_ready(process: BrokerProcess, storage: Storage, settings: Mapping[str, Any], deadline: float) -> None:
    # At first, all connections are refused: no reason for a log line.
    quick = {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 100, "log_level": 0}
    admin = AdminClient({**settings, **quick})
    cluster_id = storage.cluster_id
    while process.is_running and time.monotonic() < deadline:
        with suppress(KafkaException):
            metadata = admin.list_topics(timeout=_ANSWER_SECONDS)
            # Another broker may have been quicker to take the port.
            if metadata.brokers and metadata.cluster_id == cluster_id:
                _wake_group_coordinator(admin)
                return
    if process.is_running:
        reason = f"The broker did not answer at {settings['bootstrap.servers']} in time"
    else:
        reason = f"The broker ended (exit status {process.exit_status}) before it answered"
    raise BrokerStartError(reason, storage.log_path, process.log_start)


def _wake_group_coordinator(admin: AdminClient) -> None:
    """Have the broker create the topic of the groups' offsets before the first consumer needs it.

    The first consumer of a new broker has its first record after 0.7 s with this, 3.6 s without.
    """
    with suppress(KafkaException):  # The coordinator may still be loading.
        admin.describe_consumer_groups(["none"], request_timeout=_WAKE_SECONDS)["none"].result()
