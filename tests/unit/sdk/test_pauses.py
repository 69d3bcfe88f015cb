"""A task whose calls all raise pauses: what waits for it is kept, and is executed once when calls return again."""

from collections.abc import Sequence
from typing import Any

import pytest

from spout_sdk import (
    BasicCollector,
    KafkaSpout,
    RetryPolicy,
    TaskContext,
    Topology,
    TopologyBuilder,
    Tuple,
    declare,
)
from spout_sdk.api.topology import OnException
from spout_sdk.testing import SimulatedCluster
from tests.components import Emits, kinds, passing, source
from tests.packs import under_seed
from tests.unit.sdk.bench import Split, rig

WORD = (declare({"word": str}),)


class Database:
    """The shared data of a test's bolts."""

    is_down = True
    calls: list[float]  # times of calls that raised


@pytest.fixture(autouse=True)
def database() -> type[Database]:
    Database.is_down, Database.calls = True, []
    return Database


def store(values: Sequence[Any], context: TaskContext) -> Emits:
    if Database.is_down:
        Database.calls.append(round(context.now(), 1))
        raise ConnectionError("the database is down")
    return [(values, "default")]


STORE = kinds(store, *WORD)
Words, Pass, Store = source(*WORD), passing(*WORD), STORE.basic


def steps(bolt: Any = Store, spout: Any = Words, settings: dict[str, Any] | None = None, **options: Any) -> Topology:
    """Four steps, and a database in the third."""
    builder = TopologyBuilder("steps", **settings or {})
    builder.set_spout("words", spout)
    builder.set_bolt("first", Pass).shuffle_grouping("words")
    builder.set_bolt("second", Pass, tasks=2).shuffle_grouping("first")
    builder.set_bolt("store", bolt, tasks=2, **options).shuffle_grouping("second")
    builder.set_bolt("last", Pass).shuffle_grouping("store")
    return builder.build()


def numbered(count: int) -> list[tuple[str]]:
    return [(str(number),) for number in range(count)]


def outcomes(cluster: SimulatedCluster) -> tuple[int, int]:
    """How many messages were acked and failed."""
    return len(cluster.acked("words")), len(cluster.failed("words"))


MESSAGES = 120


@pytest.mark.parametrize(
    ("store", "guarantee"),
    [
        (STORE.batches, "at_least_once"),
        (Store, "exactly_once"),
        *(pytest.param(each, "at_least_once", marks=pytest.mark.exhaustive) for each in STORE if each != STORE.batches),
        pytest.param(STORE.coroutines, "exactly_once", marks=pytest.mark.exhaustive),
    ],
)
def test_after_five_minutes_each_step_has_executed_each_message_once(
    store: Any, guarantee: str, database: Database
) -> None:
    settings = {"guarantee": guarantee, "max_tree_age": 900.0}
    words = numbered(MESSAGES)
    topology = steps(store, settings=settings, on_exception="retry")
    with SimulatedCluster(topology, sources={"words": words}, step=2.0) as cluster:
        cluster.advance(300)
        stats = cluster.stats("store")
        assert 270 < stats.paused_seconds < 301
        assert stats.paused_by.startswith("task ")
        assert "ConnectionError: the database is down; tries again in " in stats.paused_by
        assert outcomes(cluster) == (0, 0)
        tried = len(database.calls)
        assert tried < 2 * (10 + 25)
        database.is_down = False
        cluster.advance(40)
        assert outcomes(cluster) == (MESSAGES, 0)
        for step in ("first", "second", "last"):
            assert sorted(cluster.executed(step)) == sorted(words), step
        stats = cluster.stats("store")
        assert (stats.paused_seconds, stats.paused_by, stats.retrying) == (0.0, "", 0)


@pytest.mark.parametrize("on_exception", ["fail", "retry", "dead_letter"])
def test_the_pause_becomes_longer_and_ends_with_the_first_call_that_returns(
    on_exception: str, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    options: dict[str, Any] = {"on_exception": on_exception, "max_consecutive_failures": 3}
    if on_exception == "retry":
        options["retry"] = RetryPolicy(initial_delay=50.0, max_delay=50.0, max_retries=2)
    topology = steps(settings={"max_tree_age": 900.0}, **options)
    with SimulatedCluster(topology, sources={"words": numbered(20)}, step=0.5) as cluster:
        cluster.advance(100)
        first = [at for at in database.calls if at == 0.0]
        assert len(first) == 6  # three of each task
        pauses = [1.0, 3.0, 7.0, 15.0, 31.0, 61.0, 91.0]
        assert sorted(database.calls[6:]) == sorted(2 * pauses)
        left_over = {"fail": len(cluster.failed("words")), "dead_letter": len(cluster.dead_letters()), "retry": 0}
        # Those before the one by which the pause begins; all others are kept.
        assert left_over[on_exception] == (4 if on_exception != "retry" else 0)
        database.is_down = False
        cluster.advance(60)
        assert sum(outcomes(cluster)) == 20
        assert len(cluster.executed("last")) == 20 - left_over[on_exception]
    pausing = [line for line in caplog.messages if "pauses" in line]
    assert len(pausing) == 2
    assert (
        "pauses: execute raised for tuples of 3 messages in a row, the last time ConnectionError: the data"
        in pausing[0]
    )
    assert sum("continues, after a pause of " in line for line in caplog.messages) == 2


def test_messages_of_a_topic_are_not_replayed(database: Database) -> None:
    """The default: only tuples that failed before the pause are replayed."""
    topology = steps(Store, KafkaSpout("text", streams=WORD), {"max_tree_age": 900.0})
    with SimulatedCluster(topology, step=2.0) as cluster:
        for number in range(200):
            cluster.produce("text", str(number))
        cluster.advance(300)
        # Two tasks, and nine tuples of each before the tenth.
        assert len(cluster.failed("words")) <= 18
        database.is_down = False
        cluster.advance(60)
        assert len(cluster.acked("words")) == 200
        assert len(cluster.executed("first")) <= 218


def test_single_tuples_that_raise_do_not_pause_their_task(database: Database) -> None:
    """With few messages, one that always raises is retried by the policy, and others are executed at once."""

    def picky(values: Sequence[Any], context: TaskContext) -> Emits:
        return store(values, context) if values == ("bad",) else []

    bolt = kinds(picky, *WORD).basic
    policy = RetryPolicy(1.0, 0.5, 1.0, max_retries=30)
    with SimulatedCluster(steps(bolt, on_exception="retry", retry=policy), sources={"words": [("bad",)]}) as cluster:
        cluster.advance(29.5)
        assert (len(database.calls), cluster.stats("store").paused_seconds) == (30, 0.0)
        cluster.feed("words", ("good",))
        cluster.run_until_idle()
        assert cluster.acked("words") == [1]
        cluster.advance(1)
        assert [message for message, _ in cluster.failed("words")] == [0]


def test_a_pause_with_nothing_to_try_ends(database: Database) -> None:
    """Replays of a few messages that always fail come slower than the calls that are tried."""
    with SimulatedCluster(steps(), sources={"words": []}, step=0.5) as cluster:
        for _ in range(40):
            cluster.feed("words", ("bad",))
            cluster.advance(5)
        # The first call of a pause is kept, and tried once.
        assert cluster.stats("store").paused_seconds < 300


def test_dead_letters_do_not_pause_unless_asked_to(database: Database) -> None:
    topology = steps(on_exception="dead_letter")
    with SimulatedCluster(topology, sources={"words": [("a",)] * 50}) as cluster:
        cluster.run_until_idle()
        assert (len(cluster.dead_letters()), len(cluster.acked("words"))) == (50, 50)


@pytest.mark.parametrize("restart", ["kill", "restart"])
def test_a_task_that_pauses_may_end(restart: str, database: Database) -> None:
    topology = steps(on_exception="retry")
    with SimulatedCluster(topology, sources={"words": numbered(60)}, step=0.5) as cluster:
        cluster.advance(20)
        for task in range(2):
            getattr(cluster, restart)("store", task)
        cluster.advance(20)
        database.is_down = False
        cluster.advance(40)
        assert outcomes(cluster) == (60, 0)
        assert len(cluster.executed("second")) == 60


def test_a_clean_stop_of_a_pause_loses_nothing_with_at_most_once(database: Database) -> None:
    topology = steps(settings={"guarantee": "at_most_once"})
    with SimulatedCluster(topology, sources={"words": numbered(60)}, step=0.5) as cluster:
        cluster.advance(20)
        lost = cluster.stats("store").failed["failed"]
        assert lost < 2 * (10 + 5)
        database.is_down = False
        for task in range(2):
            cluster.restart("store", task)
        cluster.advance(1)
        assert (len(cluster.executed("last")), len(cluster.executed("store"))) == (60 - lost, 60)


class Counted(Split):
    is_down = True

    def prepare(self, context: TaskContext) -> None:
        self.lines: list[str] = []

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        self.lines.append(tuple_["line"])
        if self.is_down and len(self.lines) > 40:
            raise ConnectionError("down")


def test_the_rest_of_a_call_is_the_first_after_the_pause() -> None:
    """Without hooks a bolt is called with many tuples at a time."""
    bench, task, bolt = rig(Counted)
    bench.pack("split", numbered(300), under_seed(range(1, 301)), task=1)
    task.flush()
    executed, kept = len(bolt.lines), len(bolt.lines) - 1
    # Nine have failed, the tenth is kept.
    assert (task.stats.executed, task.stats.acked, task.stats.failed) == (executed, executed - 10, {"failed": 9})
    bolt.is_down = False
    bench.advance(0.9)
    assert len(bolt.lines) == executed
    bench.advance(10)
    numbers = [int(line) for line in bolt.lines[executed:]]
    # One call of what was not executed first; the others that raised have failed.
    assert numbers[0] == executed
    assert sorted(numbers) == [*range(kept, 300)]


@pytest.mark.parametrize("on_exception", ["fail", "retry"])
@pytest.mark.parametrize("tuples", [1, 12])
def test_a_message_that_always_fails_does_not_pause_its_bolt(
    tuples: int, on_exception: OnException, database: Database
) -> None:
    """Without others beside it, and although each of its replays brings new tuples; its attempts follow its policy."""

    class Repeats(passing(*WORD)):  # type: ignore[misc]
        def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
            for number in range(tuples):
                collector.emit((f"{tuple_['word']} {number}",))

    policy = RetryPolicy(initial_delay=1, delay_period=0, max_delay=1, max_retries=15)
    builder = TopologyBuilder("poison")
    builder.set_spout("words", KafkaSpout("text", streams=WORD, retry=policy))
    builder.set_bolt("first", Repeats).shuffle_grouping("words")
    once = RetryPolicy(initial_delay=0, delay_period=0, max_retries=1)
    builder.set_bolt("store", Store, on_exception=on_exception, retry=once).shuffle_grouping("first")
    with SimulatedCluster(builder.build()) as cluster:
        cluster.produce("text", "bad")
        cluster.advance(25)
        assert cluster.stats("store").paused_seconds == 0
        (letter,) = cluster.dead_letters()
        assert "all 16 attempts failed" in letter.detail
