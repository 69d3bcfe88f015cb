"""A topology on a real Kafka: what is on the wire, and what is committed."""

import threading
from collections import Counter, defaultdict

import pytest

from spout_sdk import ComponentRunner, Stats, TopologyRunner, load_topology
from tests.kafka.sdk_rig import Cluster, ToyAcker, Use, headers_of
from tests.kafka.sdk_topologies import LINES, RELEASE, line
from tests.waiting import eventually
from tuple_tree.anchors import pack_anchors, unpack_anchors
from tuple_tree.routing import fields_task
from tuple_tree.streams import payload_codec

MODULE = "tests.kafka.sdk_topologies"


def expected_words() -> Counter[str]:
    return Counter(word for number in range(LINES) for word in line(number).split())


def test_words_are_counted_and_every_tree_completes(use: Use) -> None:
    cluster = use("words")
    name = cluster.manifest.topology
    with ToyAcker(cluster) as acker, TopologyRunner(f"{MODULE}:words", cluster.kafka, {"count": 2}) as runner:
        assert runner.wait_ready(120)
        eventually(lambda: runner.stats()["lines"].counters.get("acked") == LINES, "every line acked")
        pids = runner.pids()
        assert {component: len(of) for component, of in pids.items()} == {"lines": 1, "split": 1, "count": 2}
        runner.stop()
        stats = runner.stats()
        assert runner.wait(0)

    failed = LINES // 10
    assert stats["lines"].counters == {"acked": LINES, "failed because not yet": failed}
    assert (stats["lines"].emitted, stats["lines"].acked, stats["lines"].pending) == (LINES + failed, LINES, 0)
    assert stats["lines"].failed == {"failed": failed}
    assert stats["lines"].complete_latency.total == LINES
    assert (stats["split"].executed, stats["split"].acked, stats["split"].failed) == (
        LINES + failed,
        LINES,
        {"failed": failed},
    )
    assert stats["count"].counters == expected_words()

    # The ack log: every complete tree sums up to zero, and nothing is left open but what failed.
    assert len(acker.acked) == LINES
    assert acker.open == set(acker.failed)

    # The inboxes: nothing of ours but two headers, and the key decides the task.
    for record in cluster.records(f"{name}.tuples.split"):
        headers = headers_of(record)
        assert list(headers) == ["anchors", "source"]
        assert (headers["source"], record.key()) == (b"lines/default", None)
        assert len(unpack_anchors(headers["anchors"])) == 1
    counted = cluster.records(f"{name}.tuples.count")
    assert len(counted) == sum(expected_words().values())
    for record in counted:
        assert record.partition() == fields_task(record.key() or b"", 2)

    # Everything that was processed is committed.
    for bolt in ("split", "count"):
        assert all(committed == end for committed, end in cluster.progress(bolt).values())


def test_sessions_open_first_and_sequences_have_no_gaps(use: Use) -> None:
    cluster = use("words")
    with ToyAcker(cluster), TopologyRunner(f"{MODULE}:words", cluster.kafka) as runner:
        eventually(lambda: runner.stats()["lines"].counters.get("acked") == LINES, "every line acked")
    seen: dict[tuple[str, bytes, int], list[tuple[int, bool]]] = defaultdict(list)
    for record, batch in zip(cluster.records(f"{cluster.manifest.topology}.acks"), cluster.batches(), strict=True):
        seen[batch.writer, batch.session, record.partition() or 0].append((batch.sequence, batch.opens))
    assert {writer for writer, _, _ in seen} == {"lines/0", "lines/1", "split/0", "split/1", "count/0", "count/1"}
    assert len(seen) == 6 * cluster.manifest.ack_partitions
    for batches in seen.values():
        assert batches == [(number, number == 0) for number in range(len(batches))]


def test_with_acking_off_there_are_no_notices_and_no_acks(use: Use) -> None:
    cluster = use("untracked")
    with TopologyRunner(f"{MODULE}:untracked", cluster.kafka, {"lines": 2}) as runner:
        assert runner.wait_ready(120)
        eventually(lambda: runner.stats()["lines"].counters.get("acked") == LINES, "every line acked")
        assert runner.stats()["lines"].tasks == (0, 1, 2)
        # Not the words: this count receives lines, which have none, so each fails without a consequence.
        eventually(lambda: runner.stats()["count"].failed.get("failed") == LINES, "every line executed")
    records = cluster.records(f"{cluster.manifest.topology}.tuples.count")
    assert all(headers_of(record) == {"source": b"lines/default"} for record in records)
    assert cluster.progress("count") == {0: (LINES, LINES)}


def test_what_is_not_acked_is_not_committed_and_is_read_again_after_a_kill(
    use: Use, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    release = tmp_path_factory.mktemp("release") / "now"
    monkeypatch.setenv(RELEASE, str(release))
    cluster = use("holding")
    inbox = f"{cluster.manifest.topology}.tuples.hold"
    with ToyAcker(cluster) as acker, TopologyRunner(f"{MODULE}:holding", cluster.kafka) as runner:
        eventually(lambda: runner.stats()["hold"].executed == LINES, "every line executed")
        assert cluster.progress("hold") == {0: (0, LINES)}
        (before,) = runner.pids()["hold"]
        assert runner.kill("hold") == before
        eventually(lambda: runner.stats()["hold"].executed == 2 * LINES, "every line executed again")
        assert runner.pids()["hold"] != [before]
        assert runner.stats()["lines"].acked == 0
        release.touch()
        # One more line wakes the bolt; it is untracked, so it says nothing to the acker.
        payload = cluster.records(inbox)[0].value()
        assert isinstance(payload, bytes)
        cluster.produce(inbox, 0, payload, [("source", b"lines/default")])
        eventually(lambda: runner.stats()["lines"].acked == LINES, "every line acked")
    assert len(acker.acked) == LINES
    assert cluster.progress("hold") == {0: (LINES + 1, LINES + 1)}


def test_a_clean_stop_leaves_unacked_input_uncommitted(
    use: Use, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.setenv(RELEASE, str(tmp_path_factory.mktemp("never") / "never"))
    cluster = use("holding")
    with TopologyRunner(f"{MODULE}:holding", cluster.kafka) as runner:
        eventually(lambda: runner.stats()["hold"].executed == LINES, "every line executed")
    assert cluster.progress("hold") == {0: (0, LINES)}


class Threaded:
    """A `ComponentRunner` in a thread."""

    def __init__(self, cluster: Cluster, topology: str, component: str) -> None:
        self.stats = Stats(component)
        self.error: BaseException | None = None
        self.runner = ComponentRunner(
            load_topology(f"{MODULE}:{topology}"), component, cluster.kafka, on_stats=self._hear
        )
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _hear(self, stats: Stats) -> None:
        self.stats = stats

    def _run(self) -> None:
        try:
            self.runner.run()
        except BaseException as error:  # noqa: BLE001 - asserted by `stop`
            self.error = error

    def stop(self) -> None:
        self.runner.stop()
        self.thread.join(120)
        assert not self.thread.is_alive()
        assert self.error is None


def test_tasks_move_between_processes_and_no_tuple_is_lost(use: Use) -> None:
    cluster = use("endless")
    started: list[Threaded] = []
    with ToyAcker(cluster) as acker:
        try:
            lines, first, count = (Threaded(cluster, "endless", name) for name in ("lines", "split", "count"))
            started += [lines, first, count]
            eventually(lambda: first.stats.tasks == (0, 1) and lines.stats.acked > 100, "one process has all tasks")
            second = Threaded(cluster, "endless", "split")
            started.append(second)
            eventually(lambda: len(first.stats.tasks) == len(second.stats.tasks) == 1, "two processes share")
            assert {*first.stats.tasks, *second.stats.tasks} == {0, 1}
            acked = lines.stats.acked
            eventually(lambda: lines.stats.acked > acked + 100 and second.stats.executed > 20, "both work")
            second.stop()
            eventually(lambda: first.stats.tasks == (0, 1), "the first has all tasks again")
            acked = lines.stats.acked
            eventually(lambda: lines.stats.acked > acked + 100, "the first goes on")
            lines.runner.stop()
            lines.thread.join(120)
            assert not lines.thread.is_alive()
            # A clean move repeats nothing and loses nothing: every tree ends, although the toy acker has no time-out.
            eventually(lambda: first.stats.executed + second.stats.executed == lines.stats.emitted, "all was executed")
            eventually(lambda: len(acker.acked) + len(acker.failed) == lines.stats.emitted, "all trees to end")
            assert acker.open == set(acker.failed)
        finally:
            for each in started:
                each.stop()
    assert first.stats.executed + second.stats.executed == lines.stats.emitted


def test_garbage_in_an_inbox_is_a_dead_letter_and_the_bolt_goes_on(use: Use) -> None:
    cluster = use("words")
    name = cluster.manifest.topology
    cluster.produce(f"{name}.tuples.split", 0, b"\xff\xfe", [("source", b"lines/default"), ("mine", b"x")])
    with ToyAcker(cluster), TopologyRunner(f"{MODULE}:words", cluster.kafka) as runner:
        eventually(lambda: runner.stats()["lines"].counters.get("acked") == LINES, "every line acked")
        eventually(lambda: runner.stats()["split"].dead_letters == 1, "the dead letter counted")
    (letter,) = cluster.records(f"{name}.dead-letters")
    headers = headers_of(letter)
    assert (letter.value(), headers["mine"], headers["dead-letter.reason"]) == (b"\xff\xfe", b"x", b"bad-payload")
    assert all(committed == end for committed, end in cluster.progress("split").values())


def test_an_ack_batch_that_is_not_delivered_stops_the_process(use: Use, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = use("endless")
    # Long enough for the batches that open the sessions, however slow the machine is.
    cluster.kafka["message.timeout.ms"] = 8_000
    # Else it would end because it sees that the topic is gone.
    monkeypatch.setattr("tuple_tree.topic_watch.WATCH_SECONDS", 600.0)
    split = Threaded(cluster, "endless", "split")
    inbox = f"{cluster.manifest.topology}.tuples.split"
    try:
        eventually(lambda: split.stats.tasks == (0, 1), "the sessions opened")
        cluster.delete_topic(f"{cluster.manifest.topology}.acks")
        payload = payload_codec(cluster.manifest.stream("lines", "default")).encode((1, 1, "a line"))
        anchors = pack_anchors({7: 9})
        cluster.produce(inbox, 0, payload, [("anchors", anchors), ("source", b"lines/default")])
        eventually(lambda: not split.thread.is_alive(), "the process stopped", 120)
    finally:
        split.runner.stop()
    assert "was not delivered" in str(split.error)
    assert str(split.error).endswith("restart the process: it reads the inputs that this covered again")
    assert cluster.progress("split")[0] == (0, 1)
