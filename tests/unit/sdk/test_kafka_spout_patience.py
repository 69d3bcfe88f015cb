"""Without `max_retries` a message is retried until it is acked; only invalid ones become dead letters."""

from spout_sdk import (
    BasicBolt,
    BasicCollector,
    InvalidMessageError,
    KafkaSpout,
    Record,
    TopologyBuilder,
    Tuple,
)
from spout_sdk.testing import SimulatedCluster


class Outage:
    """A database that is down until `over`."""

    def __init__(self) -> None:
        self.over = False

    def connect(self) -> None:
        if not self.over:
            raise ConnectionError("the database is away")


class Store(BasicBolt):
    outage = Outage()

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        self.outage.connect()


def test_an_outage_of_ten_minutes_drops_no_message() -> None:
    Store.outage = Outage()
    builder = TopologyBuilder("patient")
    builder.set_spout("lines", KafkaSpout("text"))
    builder.set_bolt("store", Store).shuffle_grouping("lines")
    with SimulatedCluster(builder.build(), step=1.0) as cluster:
        for number in range(20):
            cluster.produce("text", f"line {number}")
        cluster.advance(600)
        assert not cluster.acked("lines")
        assert cluster.dead_letters() == []
        Store.outage.over = True
        cluster.advance(45)
        assert len(cluster.acked("lines")) == 20


def test_an_exception_in_translate_is_retried_unless_the_message_is_declared_invalid() -> None:
    outage = Outage()

    def translate(record: Record) -> tuple[str]:
        value = (record.value() or b"").decode()
        if value == "invalid":
            raise InvalidMessageError("no such customer")
        outage.connect()
        return (value,)

    Store.outage = Outage()
    Store.outage.over = True
    builder = TopologyBuilder("translated")
    builder.set_spout("lines", KafkaSpout("text", translate=translate))
    builder.set_bolt("store", Store).shuffle_grouping("lines")
    with SimulatedCluster(builder.build(), step=1.0) as cluster:
        for value in ("a", "invalid", "b"):
            cluster.produce("text", value)
        cluster.advance(100)
        assert not cluster.acked("lines")
        assert cluster.stats("lines").errors > 2
        outage.over = True
        cluster.advance(25)
        assert len(cluster.acked("lines")) == 2
        (letter,) = cluster.dead_letters()
        assert (letter.reason, letter.detail) == (
            "bad-payload",
            "translate() raised InvalidMessageError: no such customer",
        )
        cluster.advance(2)
        assert cluster.uncommitted("lines") == {"text[0]": 0}
