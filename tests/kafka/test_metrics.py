"""The metrics that commands serve are those of the work that was done; a stuck loop makes a command unhealthy."""

import json
import os
import re
import signal
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

from acker_worker.catalogue import Catalogue
from tests.kafka.ack_log import AckLog
from tests.kafka.cli_rig import ROOT, call_acker
from tests.kafka.numbers_topology import HOLD
from tests.kafka.sdk_topologies import NAME
from tests.unit.acker_worker.folding import column
from tests.unit.cli.running import RunningAcker, descendants, running_acker
from tests.waiting import eventually
from tuple_tree.codec import encode_ack_batch
from tuple_tree.messages import AckBatch

STUCK_AFTER_S = 2
PATIENT = {"ACKER_KAFKA__SESSION_TIMEOUT_MS": "60000"}
"""A member that stands still for a moment keeps its place in its group."""

TOPOLOGY = "tests.kafka.numbers_topology:topology"


class Endpoint:
    """The pages of a running command."""

    def __init__(self, command: RunningAcker) -> None:
        at = re.compile(r"metrics at (http://127\.0\.0\.1:\d+)/metrics")
        command.wait_until(lambda: bool(at.search(command.said)), "the address of the metrics")
        found = at.search(command.said)
        assert found is not None
        self._url = found[1]

    def samples(self) -> dict[str, float]:
        """Value by name and labels, without the topology, such as `acker_trees_total{outcome=acked}`."""
        samples = {}
        for family in self._families():
            for sample in family.samples:
                labels = ",".join(f"{name}={value}" for name, value in sample.labels.items() if name != "topology")
                samples[f"{sample.name}{{{labels}}}"] = sample.value
        return samples

    def by_topology(self, name: str) -> dict[str, float]:
        """Value of one metric by its topology."""
        return {
            sample.labels["topology"]: sample.value
            for family in self._families()
            for sample in family.samples
            if sample.name == name
        }

    def _families(self) -> list[Metric]:
        with urllib.request.urlopen(f"{self._url}/metrics", timeout=60) as answer:
            return list(text_string_to_metric_families(answer.read().decode()))

    def shows(self, expected: Mapping[str, float]) -> None:
        """Waits until all of that is shown."""

        def otherwise() -> dict[str, object]:
            shown = self.samples()
            return {name: shown.get(name) for name, value in expected.items() if shown.get(name) != value}

        try:
            eventually(lambda: not otherwise(), f"{len(expected)} numbers as expected")
        except AssertionError as error:
            error.add_note(f"shown otherwise: {otherwise()}")
            raise

    def health(self) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"{self._url}/health", timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def loses_health(self, loop: str) -> None:
        def is_lost() -> bool:
            status, said = self.health()
            return status == 503 and f"the loop of {loop} has not turned for" in json.loads(said)["why"]

        eventually(is_lost, f"{loop} to be stuck")

    def regains_health(self) -> None:
        eventually(lambda: self.health()[0] == 200, "health to come back")


@pytest.fixture
def name(bootstrap_servers: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a topology with topics."""
    name = f"metrics-{uuid.uuid4().hex[:8]}"
    monkeypatch.setenv(NAME, name)
    created = call_acker("topics", "create", TOPOLOGY, servers=bootstrap_servers)
    assert created.returncode == 0, created.stderr
    yield name
    Catalogue({"bootstrap.servers": bootstrap_servers}).withdraw(name)


def test_a_worker_shows_the_work_that_it_has_done(bootstrap_servers: str, tmp_path: Path) -> None:
    worker = ("worker", "--bootstrap-servers", bootstrap_servers, "--topology")
    with (
        AckLog(bootstrap_servers, timeout_ms=120_000) as log,
        running_acker(*worker, log.topology, "--metrics-port", "0", cwd=tmp_path, environment=PATIENT) as command,
    ):
        endpoint = Endpoint(command)
        for root in range(100):
            log.say(root, init=root + 1)
        for root in range(60):
            log.say(root, ack=root + 1)
        log.say(60, fail="no")
        log.say(61, reset=True)
        log.say(62, init=5)  # again
        log.say(1_000, ack=5)  # an orphan
        for value in batches_that_are_dropped():
            log.append(0, value)
        log.append(1, b"garbage")
        log.flush()
        log.await_notices(range(61))
        endpoint.shows(
            {
                "acker_partitions_owned{}": 2,
                "acker_entries_total{rule=init}": 101,
                "acker_entries_total{rule=ack}": 61,
                "acker_entries_total{rule=fail}": 1,
                "acker_entries_total{rule=reset}": 1,
                "acker_trees_total{outcome=acked}": 60,
                "acker_trees_total{outcome=failed}": 1,
                "acker_trees_total{outcome=timeout}": 0,
                "acker_notices_total{}": 61,
                "acker_inits_ignored_total{}": 1,
                "acker_batches_dropped_total{reason=repeated}": 1,
                "acker_batches_dropped_total{reason=superseded}": 1,
                "acker_dead_letters_total{}": 1,
                # Root 60 is even, and failed.
                "acker_pending_trees{partition=0}": 19,
                "acker_pending_trees{partition=1}": 20,
                "acker_orphans{partition=0}": 1,
                "acker_orphans{partition=1}": 0,
                "acker_clock_lag_seconds{partition=0}": 0,
                **{
                    f"acker_{kind}_offset{{partition={partition}}}": end
                    for partition, end in log.end_offsets().items()
                    for kind in ("position", "committed")
                },
            }
        )
        assert endpoint.health() == (200, '{"status": "ok"}\n')

        command.process.send_signal(signal.SIGTERM)
        assert command.ended(30) == 0


def batches_that_are_dropped() -> list[bytes]:
    """A writer's batches of which one comes twice, and one after another session was opened."""
    first, second = b"1" * 16, b"2" * 16
    opening = encode_ack_batch(AckBatch("other/0", first, 0, opens=True))
    return [
        opening,
        opening,
        encode_ack_batch(AckBatch("other/0", second, 0, opens=True)),
        encode_ack_batch(AckBatch("other/0", first, 1, ack_roots=column(2), ack_vals=column(2))),
    ]


DONE = {
    "acker_component_emitted_total{component=numbers}": 306,
    "acker_component_transferred_total{component=numbers}": 306,
    "acker_component_acked_total{component=numbers}": 300,
    "acker_component_failed_total{component=numbers,reason=failed}": 6,
    "acker_component_failed_total{component=numbers,reason=timeout}": 0,
    "acker_component_user_total{component=numbers,counter=replayed}": 6,
    "acker_component_pending{component=numbers}": 0,
    "acker_component_max_pending{component=numbers}": 10_000,
    "acker_component_complete_latency_seconds_count{component=numbers}": 300,
    "acker_component_executed_total{component=sink}": 306,
    "acker_component_acked_total{component=sink}": 300,
    "acker_component_failed_total{component=sink,reason=failed}": 6,
    "acker_component_processes{component=sink}": 1,
    "acker_component_tasks_owned{component=sink}": 1,
    "acker_trees_total{outcome=acked}": 300,
    "acker_trees_total{outcome=failed}": 6,
}
"""Once every number was acked."""


@pytest.mark.exhaustive
@pytest.mark.usefixtures("name")
def test_one_port_shows_all_that_a_command_runs(bootstrap_servers: str, tmp_path: Path) -> None:
    """A bolt that does not return, or a child process that is stopped, makes its command unhealthy."""
    hold = tmp_path / "hold"
    hold.touch()
    stuck = ("--set", f"metrics.stuck_after_s={STUCK_AFTER_S}", "--metrics-port", "0")
    arguments = ("run", TOPOLOGY, "--ackers", "1", *stuck, "--bootstrap-servers", bootstrap_servers)
    with running_acker(*arguments, cwd=ROOT, environment={**PATIENT, HOLD: str(hold)}) as command:
        endpoint = Endpoint(command)
        endpoint.shows({"acker_component_emitted_total{component=numbers}": 300})
        endpoint.loses_health("sink")
        hold.unlink()
        endpoint.shows(DONE)
        endpoint.regains_health()
        lines = {pid: Path(f"/proc/{pid}/cmdline").read_text() for pid in descendants(command.process.pid)}
        (child,) = [pid for pid, line in lines.items() if "acker_cli.acker_process" in line]
        os.kill(child, signal.SIGSTOP)
        try:
            endpoint.loses_health("acker")
        finally:
            os.kill(child, signal.SIGCONT)
        endpoint.regains_health()
        assert command.end(signal.SIGTERM) == 0
