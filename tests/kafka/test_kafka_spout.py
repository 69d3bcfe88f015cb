"""`KafkaSpout` on a real broker: retries, commits and the hand-over of tasks in threads, kills in processes."""

import uuid
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from local_kafka import LocalKafka
from spout_sdk import FailTupleError, KafkaSpout, OutputCollector, Tuple
from spout_sdk.runtime import TopologyRunner
from tests.contract.components import STREAMS, Execute, Executed, FunctionBolt, Hold
from tests.contract.real import RealWorld
from tests.kafka.sdk_rig import Source, Use, headers_of, value
from tests.kafka.topologies import QUICKLY
from tests.waiting import eventually
from tuple_tree.manifest import Guarantee
from tuple_tree.names import dead_letters_topic


def in_threads(
    world: RealWorld,
    servers: str,
    partitions: tuple[int, ...],
    execute: Execute,
    tasks: int = 1,
    guarantee: Guarantee = "at_least_once",
) -> tuple[Source, Executed]:
    """Topics with these partitions, and a topology whose spout `lines` reads them and whose bolt executes this."""
    seen, builder = Executed(execute), world.builder(message_timeout=120, tick=0.5, guarantee=guarantee)
    name = f"source-{uuid.uuid4().hex[:8]}"
    topics = {f"{name}-{number}": count for number, count in enumerate(partitions)}
    spout = KafkaSpout(
        [*topics],
        streams=STREAMS,
        translate=lambda message: (str(message.value(), "utf-8"), message.offset()),  # type: ignore[arg-type]
        retry=QUICKLY,
        outcomes=None if guarantee == "at_most_once" else f"{name}-outcomes",
    )
    builder.set_spout("lines", spout, tasks=tasks)
    builder.set_bolt("see", partial(FunctionBolt, seen)).shuffle_grouping("lines")
    return Source(servers, builder.build(), topics), seen


@pytest.mark.smoke
def test_failed_messages_are_retried_and_become_dead_letters(world: RealWorld, bootstrap_servers: str) -> None:
    roots: dict[str, list[int]] = defaultdict(list)

    def execute(tuple_: Tuple, collector: OutputCollector) -> None:
        text = tuple_["word"]
        roots[text].extend(tuple_.roots)
        if "never" in text or ("once" in text and len(roots[text]) == 1):
            raise FailTupleError("it does not work")
        collector.ack(tuple_)

    source, _ = in_threads(world, bootstrap_servers, (3, 2), execute)
    values = [f"{n} {'never' if n % 50 == 7 else 'once' if n % 10 == 0 else ''}" for n in range(120)]
    source.feed(values[:60])
    source.feed(values[60:], [*source.topics][1])
    with world.run(source.topology) as running:
        source.await_all_committed()
        letters = source.records(dead_letters_topic(source.name))
        stats = running.stats("lines")
    expected = [("dead-letter", 4) if "never" in text else ("acked", 2 if "once" in text else 1) for text in values]
    assert Counter((each["outcome"], each["attempts"]) for each in source.outcomes) == Counter(expected)
    assert all("it does not work" in each["failure"] for each in source.outcomes if each["outcome"] == "dead-letter")
    assert [len(roots[text]) for text in values] == [attempts for _, attempts in expected]
    every = [root for of_one in roots.values() for root in of_one]
    assert len({*every}) == len(every), "each delivery is a tree of its own"
    assert (stats.acked, stats.dead_letters, stats.pending) == (117, 3, 0)
    assert sorted(value(letter).decode() for letter in letters) == sorted(text for text in values if "never" in text)
    for letter in letters:
        headers = headers_of(letter)
        assert headers["dead-letter.reason"] == b"retries-exhausted"
        shown = b"all 4 attempts failed, the last one with reason failed: it does not work"
        assert headers["dead-letter.detail"] == shown
        assert headers["dead-letter.topic"].decode() in source.topics
        assert headers["dead-letter.by"] == b"lines/0"


@pytest.mark.parametrize("guarantee", ["at_least_once", "at_most_once"])
def test_two_processes_share_the_tasks_and_take_over(
    world: RealWorld, bootstrap_servers: str, guarantee: Guarantee
) -> None:
    source, seen = in_threads(world, bootstrap_servers, (4,), Hold(), tasks=2, guarantee=guarantee)
    fed: list[str] = []

    def feed_until(condition: Callable[[], Any], what: str) -> None:
        """Feeds more while it waits, so that tasks move while messages are open."""

        def more() -> bool:
            values = [str(number) for number in range(len(fed), len(fed) + 40)]
            source.feed(values)
            fed.extend(values)
            return bool(condition())

        eventually(more, what)

    with world.run(source.topology) as running:
        first = running.runners["lines"]
        feed_until(lambda: len(first.stats.tasks) == 2 and first.stats.emitted > 0, "one process has both tasks")
        second, thread = running.start("lines")
        feed_until(lambda: len(first.stats.tasks) == 1 and second.stats.emitted > 0, "each has one")
        second.stop()
        feed_until(lambda: len(first.stats.tasks) == 2, "the first one has both again")
        thread.join()
        source.await_all_committed()
        eventually(lambda: len(seen.words) >= len(fed), "every message executed")
        assert (first.stats.failed, second.stats.failed) == ({}, {})
    if guarantee == "at_most_once":
        assert sorted(seen.words) == sorted(fed), "none is emitted twice"
    assert {*seen.words} == {*fed}


def kill_at_work(runner: TopologyRunner, source: Source, values: list[str]) -> None:
    """Kills a process of the spout once it has emitted some of these, and waits for its successor."""
    before = {*eventually(lambda: runner.pids()["lines"], "processes of the spout")}
    emitted = runner.stats()["lines"].emitted
    source.feed(values)
    eventually(lambda: runner.stats()["lines"].emitted > emitted, "it to emit")
    killed = runner.kill("lines")
    eventually(lambda: len({*runner.pids()["lines"]} - {killed}) == len(before), "its successor")


@pytest.mark.exhaustive
@pytest.mark.parametrize("processes", [1, 2])
def test_repeated_kills_lose_no_message(use: Use, processes: int) -> None:
    source, kills = use("two_tasks", 4), 5
    values = [f"{n} {'once' if n % 20 == 0 else ''}" for n in range(3_000)]
    with source.processes({"lines": processes}) as runner:
        for number in range(kills):
            kill_at_work(runner, source, values[number * 500 : (number + 1) * 500])
        source.feed(values[kills * 500 :])
        source.await_all_committed(150)
        runner.stop()
        seen, lines = (runner.stats()[component] for component in ("see", "lines"))
    assert set(values) <= seen.counters.keys()
    # An owner's roots are not those of the one before: no tree that it opens waits for a time-out.
    assert (lines.dead_letters, lines.failed.get("timeout", 0)) == (0, 0)


@pytest.mark.exhaustive
def test_the_spout_continues_when_the_broker_is_back(use: Use, tmp_path: Path) -> None:
    values = [str(number) for number in range(2_000)]
    with LocalKafka(data_dir=tmp_path) as kafka:
        source = use("two_tasks", 4, servers=kafka.bootstrap_servers)
        source.feed(values[:1_000])
        with source.processes() as runner:
            eventually(lambda: runner.stats()["see"].executed > 100, "some processed")
            kafka.stop()
            kafka.start()
            source.feed(values[1_000:])
            source.await_all_committed(150)
            runner.stop()
            assert runner.stats()["see"].counters.keys() == set(values)
            assert runner.stats()["lines"].dead_letters == 0
