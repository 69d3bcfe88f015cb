"""Commands called in this process, and topologies whose components and acker worker run in threads."""

import contextlib
import io
import json
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from acker_cli.app import main
from acker_worker.catalogue import Catalogue
from acker_worker.worker import AckerWorker, WorkerSettings
from spout_sdk import ComponentRunner, Stats, Topology
from tests.unit.cli.running import Run
from tuple_tree.access import ACKER

ROOT: Final = Path(__file__).parents[2]
NO_BROKER: Final = "127.0.0.1:1"


def call_acker(
    *arguments: str,
    servers: str | None = None,
    cwd: Path = ROOT,
    environment: Mapping[str, str] | None = None,
    given: str = "",
) -> Run:
    """Runs a command in this process, where no signal and no exit of a process is the subject.

    Args:
        arguments: of `acker`.
        servers: for `--bootstrap-servers`, unless None.
        cwd: where.
        environment: variables to set meanwhile.
        given: on its standard input, which is no terminal.
    """
    whole = [*arguments, *(() if servers is None else ("--bootstrap-servers", servers))]
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        contextlib.chdir(cwd),
        patch.object(sys, "stdin", io.StringIO(given)),
        patch.object(sys, "path", [str(cwd), *sys.path]),
        patch.dict(os.environ, environment or {}),
    ):
        try:
            main(whole)
        except SystemExit as ended:
            code = ended.code
    assert isinstance(code, int)
    return Run(whole, code, out.getvalue(), err.getvalue())


def parsed(run: Run) -> Any:
    """The JSON that a successful command printed."""
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def set_config(kafka: Mapping[str, Any], topic: str, key: str, value: str) -> None:
    """Changes one setting of a topic."""
    entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
    admin = AdminClient(dict(kafka))
    for answer in admin.incremental_alter_configs(
        [ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])]
    ).values():
        answer.result()


class InThreads:
    """A topology with an acker worker, all in threads of the test.

    Attributes:
        stats: component → what it reported last.
    """

    def __init__(self, topology: Topology, users: Mapping[str, Mapping[str, Any]]) -> None:
        # No member may lose its place in its group because the machine is busy.
        patient = {"log_level": 2, "session.timeout.ms": 45_000}
        self.stats = {name: Stats(name) for name in users if name != ACKER}
        self.errors: list[BaseException] = []
        self._services: list[ComponentRunner | AckerWorker] = [
            ComponentRunner(topology, name, {**users[name], **patient}, on_stats=self._keep) for name in self.stats
        ]
        if ACKER in users:
            quick = WorkerSettings(commit_interval_s=0.2, stats_interval_s=0.05)
            self._services.append(AckerWorker(topology.name, {**users[ACKER], **patient}, quick))
        self._threads = [threading.Thread(target=self._run, args=(service,)) for service in self._services]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        for service in self._services:
            service.stop()
        for thread in self._threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in self._threads)

    def _keep(self, stats: Stats) -> None:
        self.stats[stats.component] = stats

    def _run(self, service: ComponentRunner | AckerWorker) -> None:
        try:
            service.run()
        except BaseException as error:  # noqa: BLE001 - raised again in the thread of the test
            self.errors.append(error)


@contextmanager
def in_threads(
    topology: Topology,
    kafka: Mapping[str, Any],
    components: tuple[str, ...] | None = None,
    *,
    acker: bool = True,
    users: Mapping[str, Mapping[str, Any]] | None = None,
) -> Iterator[InThreads]:
    """Publishes a topology whose topics exist, and runs it; withdraws it at the end.

    Args:
        topology: as built.
        kafka: settings of all that is run.
        components: those to run; all unless given.
        acker: whether an acker worker runs.
        users: component, or `acker` → settings, if each runs as a user of its own.
    """
    Catalogue(dict(kafka)).publish(topology.manifest)
    chosen = [each.name for each in topology.manifest.components] if components is None else components
    running = InThreads(topology, users or dict.fromkeys([*chosen, *([ACKER] if acker else [])], kafka))
    running.start()
    try:
        yield running
    finally:
        running.stop()
        Catalogue(dict(kafka)).withdraw(topology.manifest.topology)
    assert running.errors == []
