"""Windows on a real Kafka: every tree completes, and what a killed task held is in the windows of the next."""

from collections import Counter

from spout_sdk import TopologyRunner
from tests.kafka.sdk_rig import ToyAcker, Use, value
from tests.kafka.sdk_topologies import LINES, line
from tests.kafka.window_topologies import LINES_A_WINDOW, WORDS_A_WINDOW
from tests.waiting import eventually
from tuple_tree.streams import payload_codec

MODULE = "tests.kafka.window_topologies"


def test_words_are_counted_by_the_window_and_every_tree_completes(use: Use) -> None:
    cluster = use("words", MODULE)
    expected = Counter(word for number in range(LINES) for word in line(number).split())
    windows, left_over = divmod(sum(expected.values()), WORDS_A_WINDOW)
    assert left_over == 0
    with ToyAcker(cluster) as acker, TopologyRunner(f"{MODULE}:words", cluster.kafka) as runner:
        eventually(lambda: runner.stats()["lines"].counters.get("acked") == LINES, "every line acked", 120)
        runner.stop()
        stats = runner.stats()
    assert stats["count"].counters == {"windows": windows}
    assert stats["add"].counters == expected
    # Nothing is left open but what `Split` failed, and that came again.
    assert len(acker.acked) == LINES
    assert acker.open == set(acker.failed)
    for bolt in ("split", "count", "add"):
        assert all(committed == end for committed, end in cluster.progress(bolt).values())


def test_the_clock_closes_windows_and_every_tree_completes(use: Use) -> None:
    cluster = use("words_by_the_second", MODULE)
    with ToyAcker(cluster) as acker, TopologyRunner(f"{MODULE}:words_by_the_second", cluster.kafka) as runner:
        eventually(lambda: runner.stats()["lines"].counters.get("acked") == LINES, "every line acked", 120)
        runner.stop()
        stats = runner.stats()
    assert stats["count"].counters["windows"] >= 1
    assert stats["add"].counters == Counter(word for number in range(LINES) for word in line(number).split())
    assert acker.open == set(acker.failed)


def test_what_a_killed_task_held_is_in_the_windows_of_the_next(use: Use) -> None:
    cluster = use("batches", MODULE)
    name = cluster.manifest.topology
    inbox = f"{name}.tuples.batch"
    with ToyAcker(cluster) as acker, TopologyRunner(f"{MODULE}:batches", cluster.kafka) as runner:
        eventually(lambda: runner.stats()["lines"].acked == LINES_A_WINDOW, "the first window acked", 120)
        eventually(lambda: cluster.progress("batch") == {0: (LINES_A_WINDOW, LINES)}, "what is held not committed")
        (before,) = runner.pids()["batch"]
        assert runner.kill("batch") == before
        eventually(lambda: runner.pids()["batch"] not in ([], [before]), "another process", 120)
        # Untracked lines fill the window, so that it closes.
        stream = cluster.manifest.stream("lines", "default")
        for number in range(LINES, 2 * LINES_A_WINDOW):
            payload = payload_codec(stream).encode((number, 0, "more"))
            cluster.produce(inbox, 0, payload, [("source", b"lines/default")])
        eventually(lambda: runner.stats()["lines"].acked == LINES, "every line acked", 120)
        eventually(lambda: cluster.progress("batch") == {0: (100, 100)}, "all committed")
    assert len(acker.acked) == LINES
    codec = payload_codec(cluster.manifest.stream("batch", "default"))
    kept = [codec.decode(value(record))[0].split() for record in cluster.records(f"{name}.tuples.keep")]
    assert [sorted(map(int, batch)) for batch in kept] == [
        list(range(LINES_A_WINDOW)),
        list(range(LINES_A_WINDOW, 2 * LINES_A_WINDOW)),
    ]
