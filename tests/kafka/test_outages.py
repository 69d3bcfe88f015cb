"""Waits beyond a client's limits: a long `execute`, and a broker that is down."""

import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from confluent_kafka.admin import NewTopic

from inspection.topology_status import ClusterStatus
from kafka_clients.catalogue import Catalogue
from kafka_clients.log_reader import LogReader
from local_kafka import LocalKafka
from spout_sdk.runtime import Exit
from tests.broker import KILLED
from tests.kafka.kill_rig import Start
from tests.kafka.sdk_rig import Use, acking
from tests.kafka.topologies import HOLD, LINES
from tests.topics import create_topics
from tests.waiting import eventually
from tuple_tree.names import TOPOLOGIES_TOPIC

pytestmark = pytest.mark.exhaustive


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[LocalKafka]:
    with LocalKafka(data_dir=tmp_path / "broker", properties=KILLED) as kafka:
        yield kafka


def test_a_bolt_that_exceeds_the_poll_interval_loses_its_task_and_no_message(
    use: Use, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    hold = tmp_path / "hold"
    hold.touch()
    monkeypatch.setenv(HOLD, str(hold))
    source = use("words")
    source.kafka["max.poll.interval.ms"] = 6_000
    exits: list[Exit] = []

    def on_exit(exit_: Exit) -> None:
        exits.append(exit_)
        hold.unlink(missing_ok=True)

    with source.processes(workers=[["lines"], ["split", "count"]], on_exit=on_exit) as runner:
        eventually(lambda: runner.stats()["lines"].counters.get("acked") == LINES, "every line acked", 120)
    [ended] = exits
    assert (ended.components, ended.code) == (("split", "count"), 1)
    assert ended.error.startswith("split/")
    assert "one execute ran for 6 s, longer than max.poll.interval.ms allows (6 s)" in ended.error
    assert ended.error in capfd.readouterr().err


def test_a_broker_that_is_fenced_for_a_moment_is_no_outage_for_what_inspects_a_cluster(broker: LocalKafka) -> None:
    kafka = {"bootstrap.servers": broker.bootstrap_servers}
    topics = {TOPOLOGIES_TOPIC: 1, "t": 3}
    create_topics(kafka, [NewTopic(name, partitions, 1) for name, partitions in topics.items()])
    places = [(name, number) for name, partitions in topics.items() for number in range(partitions)]
    status = ClusterStatus(kafka)

    def look() -> None:
        assert status.catalogue.published() == {}
        assert len(status.offset_ranges(places)) == 4
        assert status.members(["group"]) == {"group": 0}
        assert status.all_commits(["group"]) == {"group": {}}
        with LogReader(kafka) as reader:
            assert len(reader.offset_ranges(places, since_ms=1)) == 4

    look()
    assert broker.pid is not None
    process = psutil.Process(broker.pid)
    for _ in range(2):
        process.suspend()
        time.sleep(2 * int(KILLED["broker.session.timeout.ms"]) / 1000)
        process.resume()
        for _ in range(100):  # `describe_cluster` would abort this process
            Catalogue(kafka, first_s=20).reach()
        look()


def test_an_outage_beyond_the_delivery_timeout_stops_no_topology(broker: LocalKafka, start: Start) -> None:
    run = start("at_least_once", servers=broker.bootstrap_servers, **{"message.timeout.ms": 3_000})
    with acking(run.cluster), run.runner:
        run.flows()
        broker.kill()
        eventually(lambda: any("was not delivered" in each.error for each in run.exits), "a process to end", 90)
        broker.start()
        run.flows()
        assert run.results().keys() <= run.expected().keys()
