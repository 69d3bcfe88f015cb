"""A client sends messages, and waits for their outcomes, on a real broker."""

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from spout_sdk.client import Client
from spout_sdk.errors import DeadLetterError
from spout_sdk.runtime import TopologyRunner
from tests.chaos.components import DIRECTORY
from tests.kafka.sdk_rig import Use
from tests.kafka.topologies import outcomes_of
from tests.waiting import eventually


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(DIRECTORY, str(tmp_path))
    return tmp_path


async def until(condition: Callable[[], object], what: str) -> None:
    await asyncio.to_thread(eventually, condition, what)


@pytest.mark.parametrize("topology", ["answered", pytest.param("answered_once", marks=pytest.mark.exhaustive)])
def test_each_message_gets_its_answer_although_the_bolt_is_killed(use: Use, directory: Path, topology: str) -> None:
    orders = use(topology, 2)

    async def scenario(runner: TopologyRunner) -> None:
        async with Client(orders.topology, orders.kafka, max_open=50) as client:
            outcomes = await asyncio.gather(*(client.process(f"a{n}", key=f"{n}", timeout=60) for n in range(200)))
            assert [each.answer[0] for each in outcomes] == [f"A{n}" for n in range(200)]
            assert {each.outcome for each in outcomes} == {"acked"}
            held = asyncio.create_task(client.process("held", timeout=120))
            (killed,) = runner.pids()["upper"]
            await until(lambda: (directory / f"held-{killed}").exists(), "the first execute")
            other = asyncio.create_task(client.process("bad", timeout=120))
            os.kill(killed, signal.SIGKILL)
            await until(lambda: len(list(directory.glob("held-*"))) == 2, "the second execute")
            assert not held.done()
            (directory / "release-held").touch()
            with pytest.raises(DeadLetterError, match="it is bad") as raised:
                await other
            assert (raised.value.outcome.attempts, raised.value.outcome.component) == (4, "upper")
            text, pid = (await held).answer
            assert (text, pid) == ("HELD", runner.pids()["upper"][0])
            assert client.open_calls == 0

    with orders.processes() as runner:
        asyncio.run(scenario(runner))
    assert len(orders.outcomes) == 202


@pytest.mark.exhaustive
@pytest.mark.parametrize("topology", ["answered", "answered_once"])
def test_each_call_gets_its_own_answer_while_the_spout_and_the_bolt_are_killed(
    use: Use, directory: Path, topology: str
) -> None:
    orders, kills = use(topology, 2), 4

    async def scenario(runner: TopologyRunner) -> None:
        async with Client(orders.topology, orders.kafka, max_open=100) as client:
            killed, answered = 0, 0

            async def caller(name: int) -> None:
                nonlocal answered
                number = 0
                while killed < kills or number < 20:
                    text = f"call {name}-{number}"
                    assert (await client.process(text, key=text, timeout=120)).answer[0] == text.upper()
                    number, answered = number + 1, answered + 1

            async with asyncio.TaskGroup() as callers:
                for name in range(50):
                    callers.create_task(caller(name))
                for component in ("upper", "orders") * (kills // 2):
                    wanted = answered + 100
                    await until(lambda wanted=wanted: answered >= wanted, "more answers")  # type: ignore[misc]
                    await asyncio.to_thread(runner.kill, component)
                    killed += 1

    with orders.processes() as runner:
        asyncio.run(scenario(runner))


@pytest.mark.exhaustive
def test_outcomes_are_read_from_partitions_that_are_added_to_their_topic(
    use: Use, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spout_sdk.client.reading._LOOK_SECONDS", 0.1)
    orders = use("answered", 2)
    outcomes, admin = outcomes_of(orders.name), AdminClient(orders.bootstrap)

    async def scenario() -> None:
        async with Client(orders.topology, orders.kafka) as client:
            await client.process("first", key="first", timeout=60)
            admin.create_partitions([NewPartitions(outcomes, 4)])[outcomes].result(60)
            # The spout discovers the partitions with its next refresh of metadata.
            while {each.partition() for each in orders.records(outcomes)} <= {0, 1}:
                await asyncio.gather(*(client.process("more", key=f"{number}", timeout=60) for number in range(20)))

    with orders.processes():
        asyncio.run(scenario())
