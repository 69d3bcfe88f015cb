"""The metrics of commands count their work; a stuck loop makes a command unhealthy."""

import json
import os
import re
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from kafka_clients.catalogue import Catalogue
from tests.kafka.sdk_rig import Use
from tests.kafka.topologies import HOLD, LINES
from tests.pages import ROOT
from tests.unit.cli.running import RunningAcker, command_line, descendants, running_acker
from tests.waiting import eventually

STUCK_AFTER_SECONDS = 2
PATIENT = {"ACKER_KAFKA__SESSION_TIMEOUT_MS": "60000"}
"""A member that is suspended for a moment stays in its group."""


class Endpoint:
    """The pages of a running command."""

    def __init__(self, command: RunningAcker) -> None:
        at = re.compile(r"metrics at (http://127\.0\.0\.1:\d+)/metrics")
        command.wait_until(lambda: bool(at.search(command.output)), "the address of the metrics")
        self._url = at.findall(command.output)[0]

    def _samples(self) -> Iterator[Sample]:
        with urllib.request.urlopen(f"{self._url}/metrics", timeout=60) as answer:
            for family in text_string_to_metric_families(answer.read().decode()):
                yield from family.samples

    def shows(self, expected: Mapping[str, float]) -> None:
        """Waits for values by name and labels, without the topology, such as `acker_trees_total{outcome=acked}`."""
        shown: dict[str, float] = {}

        def is_shown() -> bool:
            for sample in self._samples():
                labels = ",".join(f"{name}={value}" for name, value in sample.labels.items() if name != "topology")
                shown[f"{sample.name}{{{labels}}}"] = sample.value
            return expected.items() <= shown.items()

        try:
            eventually(is_shown, f"{len(expected)} numbers as expected")
        except AssertionError as error:
            error.add_note(f"shown otherwise: { {name: shown.get(name) for name in expected} }")
            raise

    def health(self) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"{self._url}/health", timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def becomes_unhealthy(self, loop: str) -> None:
        def is_lost() -> bool:
            status, body = self.health()
            return status == 503 and f"the loop of {loop} has not turned for" in json.loads(body)["why"]

        eventually(is_lost, f"{loop} to be stuck")

    def becomes_healthy(self) -> None:
        eventually(lambda: self.health()[0] == 200, "health to come back")


FAILED = LINES // 10
DONE = {
    "acker_component_emitted_total{component=lines}": LINES + FAILED,
    "acker_component_transferred_total{component=lines}": LINES + FAILED,
    "acker_component_acked_total{component=lines}": LINES,
    "acker_component_failed_total{component=lines,reason=failed}": FAILED,
    "acker_component_failed_total{component=lines,reason=timeout}": 0,
    "acker_component_user_total{component=lines,counter=acked}": LINES,
    "acker_component_pending{component=lines}": 0,
    "acker_component_complete_latency_seconds_count{component=lines}": LINES,
    "acker_component_executed_total{component=split}": LINES + FAILED,
    "acker_component_acked_total{component=split}": LINES,
    "acker_component_failed_total{component=split,reason=failed}": FAILED,
    "acker_component_processes{component=split}": 1,
    "acker_component_tasks_owned{component=split}": 2,
    "acker_trees_total{outcome=acked}": LINES,
    "acker_trees_total{outcome=failed}": FAILED,
}
"""Once every line was acked."""


@pytest.mark.exhaustive
def test_one_port_serves_all_processes_of_a_command(use: Use, bootstrap_servers: str, tmp_path: Path) -> None:
    """A bolt that does not return, or a child process that is stopped, makes its command unhealthy."""
    cluster = use("words")
    catalogue = Catalogue(cluster.bootstrap)
    catalogue.publish(cluster.manifest)
    hold = tmp_path / "hold"
    hold.touch()
    stuck = ("--set", f"metrics.stuck_after_s={STUCK_AFTER_SECONDS}", "--metrics-port", "0")
    processes = ("--processes", "1", "--ackers", "1", "--bootstrap-servers", bootstrap_servers)
    arguments = ("run", cluster.reference, *processes, *stuck)
    with running_acker(*arguments, cwd=ROOT, environment={**PATIENT, HOLD: str(hold)}) as command:
        endpoint = Endpoint(command)
        endpoint.becomes_unhealthy("split")
        hold.unlink()
        endpoint.shows(DONE)
        endpoint.becomes_healthy()
        lines = {pid: command_line(pid) for pid in descendants(command.process.pid)}
        (child,) = [pid for pid, line in lines.items() if "acker_cli.processes.acker_pool" in line]
        os.kill(child, signal.SIGSTOP)
        try:
            endpoint.becomes_unhealthy("acker")
        finally:
            os.kill(child, signal.SIGCONT)
        endpoint.becomes_healthy()
        assert command.end(signal.SIGTERM) == 0
    catalogue.withdraw(cluster.manifest.topology)
