"""Without `max_retries` a message is retried until it is acked; only what is declared invalid is set aside."""

from typing import ClassVar

from spout_sdk import (
    BasicBolt,
    BasicCollector,
    FailTupleError,
    InvalidMessageError,
    KafkaSpout,
    Record,
    RetryPolicy,
    TaskContext,
    TopologyBuilder,
    Tuple,
)
from spout_sdk.testing import SimulatedCluster


class Outage:
    """A database that is away until `over`."""

    def __init__(self) -> None:
        self.over = False

    def ask(self) -> None:
        if not self.over:
            raise ConnectionError("the database is away")


class Store(BasicBolt):
    outage = Outage()

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        self.outage.ask()


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
        cluster.advance(25)
        assert len(cluster.acked("lines")) == 20


def test_an_exception_in_translate_is_retried_unless_the_message_is_declared_invalid() -> None:
    outage = Outage()

    def translate(record: Record) -> tuple[str]:
        value = (record.value() or b"").decode()
        if value == "invalid":
            raise InvalidMessageError("no such customer")
        outage.ask()
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


class Seen(BasicBolt):
    times: ClassVar[list[float]] = []

    def prepare(self, context: TaskContext) -> None:
        self.context = context

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        self.times.append(self.context.now())
        raise FailTupleError("never")


def test_a_simulated_cluster_is_idle_only_when_no_retry_is_due() -> None:
    for policy, seconds, attempts in (
        (RetryPolicy(initial_delay=0, delay_period=0, max_delay=0, max_retries=5), 0.1, 6),
        (RetryPolicy(initial_delay=0.1, delay_period=0.1, max_retries=5), 0.1 + 0.2 + 0.4 + 0.8 + 1.6, 6),
    ):
        Seen.times = []
        builder = TopologyBuilder("due")
        builder.set_spout("lines", KafkaSpout("text", retry=policy))
        builder.set_bolt("seen", Seen).shuffle_grouping("lines")
        with SimulatedCluster(builder.build()) as cluster:
            cluster.produce("text", "a")
            cluster.advance(0.1)
            cluster.advance(seconds)
            assert len(Seen.times) == attempts


def test_at_most_once_commits_before_it_executes_in_a_simulated_cluster_too() -> None:
    builder = TopologyBuilder("once", guarantee="at_most_once")
    builder.set_spout("lines", KafkaSpout("text", translate=lambda record: None if record.offset() == 0 else ("b",)))
    builder.set_bolt("seen", Seen).shuffle_grouping("lines")
    Seen.times = []
    with SimulatedCluster(builder.build()) as cluster:
        cluster.produce("text", "a")
        cluster.produce("text", "b")
        cluster.advance(0.1)
        cluster.run_until(lambda: Seen.times)
        assert cluster.committed("seen") == {0: 1}
        cluster.kill("seen")
        cluster.advance(5)
        assert len(Seen.times) == 1
