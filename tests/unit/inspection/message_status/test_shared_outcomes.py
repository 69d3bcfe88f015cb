"""Two topologies that read one source, and write their outcomes to one topic."""

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from inspection.message_status import MessageStatus, State, StatusReader
from spout_sdk import BasicBolt, KafkaSpout, Topology, TopologyBuilder
from spout_sdk.client import Client, MessageOutcome
from spout_sdk.errors import OutcomePendingError
from spout_sdk.testing import SimulatedCluster
from tests.unit.inspection.message_status.reading_clients import reading_settings
from tests.waiting import eventually
from tuple_tree.names import TOPOLOGIES_TOPIC


class Ignore(BasicBolt):
    def execute(self, _tuple: Any, _collector: Any) -> None:
        """Acks it."""


def shop(name: str) -> Topology:
    builder = TopologyBuilder(name, ack_partitions=2)
    builder.set_spout("orders", KafkaSpout("orders", outcomes="outcomes"))
    builder.set_bolt("ship", Ignore).shuffle_grouping("orders")
    return builder.build()


class Shops:
    """The topology `first`, which does not run, and `second`, which has the same code."""

    def __init__(self) -> None:
        self.first = SimulatedCluster(shop("first"), paused=["orders"])
        self.second = SimulatedCluster(shop("second"))
        self._publish("first")

    def _publish(self, name: str) -> None:
        manifest = (self.first if name == "first" else self.second).topology.manifest
        self.first.broker.append(TOPOLOGIES_TOPIC, 0, name.encode(), manifest.to_json(), [])

    def publish_second(self) -> None:
        self._publish("second")

    def processed(self, value: str, *, is_named: bool) -> Callable[[], object]:
        """Has `second` process a message; the result writes its outcome to the topic.

        Version 0.2 has written records without headers.
        """
        before = len(self.second.records("outcomes"))
        self.second.produce("orders", value)
        self.second.run_until(lambda: len(self.second.records("outcomes")) > before)
        record = self.second.records("outcomes")[-1]
        headers = [*(record.headers() or ())] if is_named else []
        return partial(self.first.broker.append, "outcomes", 0, record.key(), record.value(), headers)

    def sent(self, value: str, timeout: float, *, is_named: bool) -> MessageOutcome:
        """The result of a client of `first` that sends a message, which `second` reads as well."""
        write = self.processed(value, is_named=is_named)  # before the threads of the client run, which never wait here

        async def process() -> MessageOutcome:
            settings = {**reading_settings(self.first.broker), "bootstrap.servers": "memory"}
            async with Client(self.first.topology, settings) as client:
                sent = self.first.broker.end("orders", 0) + 1
                call = asyncio.create_task(client.process(value, timeout=timeout))
                await asyncio.to_thread(eventually, lambda: self.first.broker.end("orders", 0) == sent, "the message")
                write()
                return await call

        return asyncio.run(process())

    def status(self) -> MessageStatus:
        """The status of the first message in `first`."""
        with StatusReader(reading_settings(self.first.broker), self.first.topology.manifest) as reader:
            (status,) = reader.of_position("orders/0/0")
        return status


@pytest.fixture
def shops(monkeypatch: pytest.MonkeyPatch) -> Iterator[Shops]:
    shops = Shops()
    monkeypatch.setattr("time.time_ns", lambda: shops.first.clock.broker_ms * 1_000_000)
    yield shops
    shops.first.close()
    shops.second.close()


def test_a_client_does_not_take_the_outcome_of_another_topology_for_that_of_its_own(shops: Shops) -> None:
    for is_named in (True, False):
        if not is_named:
            shops.publish_second()
        with pytest.raises(OutcomePendingError):
            shops.sent("a", 0.2, is_named=is_named)


def test_a_client_takes_an_outcome_of_the_version_before_where_no_other_topology_writes(shops: Shops) -> None:
    assert shops.sent("a", 30.0, is_named=False).outcome == "acked"


@pytest.mark.parametrize(
    ("is_named", "is_shared", "state"),
    [
        (True, False, State.UNREAD),
        (False, True, State.UNREAD),
        (False, False, State.DONE),
    ],
)
def test_a_status_is_not_that_of_another_topology(shops: Shops, is_named: bool, is_shared: bool, state: State) -> None:
    if is_shared:
        shops.publish_second()
    shops.first.produce("orders", "a")
    shops.processed("a", is_named=is_named)()
    assert shops.status().state is state
