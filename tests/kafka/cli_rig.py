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

    def __init__(
        self, topology: Topology, kafka: Mapping[str, Any], components: tuple[str, ...] | None, acker: bool
    ) -> None:
        # No member may lose its place in its group because the machine is busy.
        settings = {**kafka, "log_level": 2, "session.timeout.ms": 45_000}
        manifest = topology.manifest
        chosen = [each.name for each in manifest.components] if components is None else components
        self.stats = {name: Stats(name) for name in chosen}
        self.errors: list[BaseException] = []
        self._services: list[ComponentRunner | AckerWorker] = [
            ComponentRunner(topology, name, settings, on_stats=self._keep) for name in chosen
        ]
        if acker:
            quick = WorkerSettings(commit_interval_s=0.2, stats_interval_s=0.05)
            self._services.append(AckerWorker(manifest.topology, settings, quick))
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
) -> Iterator[InThreads]:
    """Publishes a topology whose topics exist, and runs all or some of its components; withdraws it at the end."""
    Catalogue(dict(kafka)).publish(topology.manifest)
    running = InThreads(topology, kafka, components, acker)
    running.start()
    try:
        yield running
    finally:
        running.stop()
        Catalogue(dict(kafka)).withdraw(topology.manifest.topology)
    assert running.errors == []
