"""`KafkaSpout` on a real broker, in processes of its own, with a real acker."""

import uuid
from collections.abc import Callable

import pytest

from spout_sdk import ProcessError, TopologyRunner
from tests.kafka.sdk_rig import headers_of, value
from tests.kafka.sdk_topologies import NAME
from tests.kafka.source_rig import Source
from tests.kafka.source_topologies import SOURCE
from tests.waiting import eventually

Use = Callable[..., Source]


@pytest.fixture
def use(bootstrap_servers: str, monkeypatch: pytest.MonkeyPatch) -> Use:
    """Gives a topology a fresh name, its topics and a source."""

    def use(topology: str, *partitions: int) -> Source:
        unique = uuid.uuid4().hex[:8]
        topics = {f"source-{number}-{unique}": count for number, count in enumerate(partitions or (3,))}
        monkeypatch.setenv(NAME, f"{topology}-{unique}")
        monkeypatch.setenv(SOURCE, ",".join(topics))
        return Source(bootstrap_servers, topology, topics)

    return use


def test_every_message_is_acked_and_the_group_reaches_the_end(use: Use) -> None:
    source = use("one_task", 3, 2)
    first, second = source.topics
    fed = [f"first {n}" for n in range(300)], [f"second {n}" for n in range(100)]
    source.feed(fed[0], first)
    source.feed(fed[1], second)
    with source.acker(), TopologyRunner(source.reference, source.kafka) as runner:
        source.await_all_committed()
        runner.stop()
        stats = runner.stats()
        assert stats["lines"].acked == 400
        assert stats["lines"].failed == {}
        assert stats["see"].counters == dict.fromkeys([*fed[0], *fed[1]], 1)


def test_what_fails_is_read_again_and_what_never_works_is_a_dead_letter(use: Use) -> None:
    source = use("one_task")
    values = [f"{n} {'never' if n % 50 == 7 else 'once' if n % 10 == 0 else ''}" for n in range(200)]
    source.feed(values)
    with source.acker(), TopologyRunner(source.reference, source.kafka) as runner:
        source.await_all_committed()
        runner.stop()
        seen = runner.stats()["see"].counters
        assert runner.stats()["lines"].dead_letters == 4
    # Each `once` twice, as it was failed by one of the two tasks of the bolt, or by both, and each `never` four times.
    assert {text for text in values if seen[text] == 1} == {text for text in values if text.endswith(" ")}
    assert all(2 <= seen[text] <= 3 for text in values if "once" in text)
    assert all(seen[text] == 4 for text in values if "never" in text)
    letters = source.records(f"{source.manifest.topology}.dead-letters")
    assert sorted(value(letter).decode() for letter in letters) == sorted(text for text in values if "never" in text)
    for letter in letters:
        headers = headers_of(letter)
        assert headers["dead-letter.reason"] == b"retries-exhausted"
        said = b"all 4 attempts failed, the last one with reason failed: it never works"
        assert headers["dead-letter.detail"] == said
        assert headers["dead-letter.topic"].decode() in source.topics
        assert headers["dead-letter.by"] == b"lines/0"


@pytest.mark.exhaustive
def test_killed_again_and_again_it_loses_nothing(use: Use) -> None:
    source = use("two_tasks", 4)
    values = [f"{n} {'once' if n % 20 == 0 else ''}" for n in range(3_000)]
    kills = 5
    with source.acker(), TopologyRunner(source.reference, source.kafka) as runner:
        for number in range(kills):
            kill_at_work(runner, source, values[number * 500 : (number + 1) * 500])
        source.feed(values[kills * 500 :])
        source.await_all_committed(150)
        runner.stop()
        seen = runner.stats()["see"].counters
        lines = runner.stats()["lines"]
    assert set(values) <= seen.keys()
    assert lines.dead_letters == 0
    # An owner's roots are not those of the one before: no tree that it opens waits for a time-out.
    assert lines.failed.get("timeout", 0) == 0


def _more(runner: TopologyRunner, than: int) -> bool:
    return "see" in runner.stats() and runner.stats()["see"].executed > than


def kill_at_work(runner: TopologyRunner, source: Source, values: list[str]) -> None:
    """Kills the spout's process once it has emitted some of these, and waits for the next one."""
    (pid,) = eventually(lambda: runner.pids()["lines"], "a process of the spout")
    before = runner.stats()["lines"].emitted if "lines" in runner.stats() else 0
    source.feed(values)
    eventually(lambda: "lines" in runner.stats() and runner.stats()["lines"].emitted > before, "it to emit")
    assert runner.kill("lines") == pid
    eventually(lambda: runner.pids()["lines"] not in ([], [pid]), "the next process")


def test_two_processes_share_the_tasks_and_take_over_from_each_other(use: Use) -> None:
    source = use("two_tasks", 4)
    values = [str(n) for n in range(2_000)]
    with source.acker(), TopologyRunner(source.reference, source.kafka, {"lines": 2}) as runner:
        source.feed(values[:500])
        eventually(lambda: runner.stats()["lines"].tasks == (0, 1) and _more(runner, 200), "both tasks at work")
        source.feed(values[500:1_000])
        killed = runner.kill("lines")
        source.feed(values[1_000:])
        eventually(lambda: len([p for p in runner.pids()["lines"] if p != killed]) == 2, "two processes again")
        source.await_all_committed(150)
        runner.stop()
        stats = runner.stats()
    assert set(values) <= stats["see"].counters.keys()
    assert stats["lines"].failed == {}
    assert stats["lines"].dead_letters == 0


def test_the_first_poll_may_begin_at_the_end(use: Use) -> None:
    source = use("from_latest")
    source.feed([f"old {n}" for n in range(30)])
    with source.acker(), TopologyRunner(source.reference, source.kafka) as runner:
        source.await_all_committed()
        new = [f"new {n}" for n in range(30)]
        source.feed(new)
        source.await_all_committed()
        runner.kill("lines")
        later = [f"later {n}" for n in range(30)]
        source.feed(later)
        source.await_all_committed()
        runner.stop()
        assert runner.stats()["see"].counters.keys() == {*new, *later}


@pytest.mark.exhaustive
@pytest.mark.parametrize("topology", ["at_most_once", "untracked"])
def test_at_most_once_emits_nothing_twice(use: Use, topology: str) -> None:
    source = use(topology, 4)
    values = [str(n) for n in range(5_000)]
    with TopologyRunner(source.reference, source.kafka) as runner:
        for number in range(4):
            kill_at_work(runner, source, values[number * 1_000 : (number + 1) * 1_000])
        source.feed(values[4_000:])
        source.await_all_committed()
        last = set(values[4_000:])
        eventually(lambda: last <= runner.stats()["see"].counters.keys(), "what came after the kills")
        runner.stop()
        stats = runner.stats()
    assert set(stats["see"].counters.values()) == {1}
    assert stats["lines"].failed == {}


def test_without_a_guarantee_the_group_follows(use: Use) -> None:
    source = use("no_guarantee")
    source.feed([str(n) for n in range(100)])
    with TopologyRunner(source.reference, source.kafka) as runner:
        source.await_all_committed()
        eventually(lambda: _more(runner, 99), "all of it to be processed")


def test_uncommitted_offsets_are_limited(use: Use) -> None:
    source = use("narrow")
    values = [f"{n} {'once' if n % 7 == 0 else ''}" for n in range(300)]
    source.feed(values)
    with source.acker(), TopologyRunner(source.reference, source.kafka) as runner:
        source.await_all_committed()
        runner.stop()
        assert runner.stats()["see"].counters.keys() == set(values)


def test_a_source_that_does_not_exist_is_one_clear_line(use: Use, monkeypatch: pytest.MonkeyPatch) -> None:
    source = use("one_task")
    monkeypatch.setenv(SOURCE, "no-such-topic")
    with pytest.raises(ProcessError, match="'lines' reads topic no-such-topic, which does not exist: create it"):
        TopologyRunner(source.reference, source.kafka).run()
