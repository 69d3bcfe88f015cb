"""Waits beyond a client's limits: a long `execute`, and a broker that is down."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from local_kafka import LocalKafka
from spout_sdk import Exit
from tests.kafka.kill_rig import Start
from tests.kafka.sdk_rig import Use, acking
from tests.kafka.topologies import HOLD, LINES
from tests.waiting import eventually

pytestmark = pytest.mark.exhaustive


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[LocalKafka]:
    with LocalKafka(data_dir=tmp_path / "broker") as kafka:
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


def test_an_outage_beyond_the_delivery_timeout_stops_no_topology(broker: LocalKafka, start: Start) -> None:
    run = start("at_least_once", servers=broker.bootstrap_servers, **{"message.timeout.ms": 3_000})
    with acking(run.cluster), run.runner:
        run.flows()
        broker.kill()
        eventually(lambda: any("was not delivered" in each.error for each in run.exits), "a process to end", 90)
        broker.start()
        run.flows()
        assert run.results().keys() <= run.expected().keys()
