"""A windowed bolt's task, driven record by record without Kafka: what is emitted, acked, failed and committable."""

import logging
import random
from collections import defaultdict
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spout_sdk import (
    ComponentError,
    FailTupleError,
    OutputCollector,
    TaskContext,
    TooManyFailuresError,
    Tuple,
    TupleAlreadyDoneError,
    Window,
    WindowSpec,
    sliding,
    tumbling,
)
from tests.unit.sdk.windowed_bolt_rig import Rig, Total
from tests.unit.sdk.windows_rig import numbers


def test_a_tuple_is_acked_when_its_window_has_closed_and_its_offset_is_committable_then() -> None:
    rig = Rig(partial(Total, tumbling(count=3)))
    rig.feed(0, 1)
    assert (rig.acked(), rig.task.committable, rig.task.open_inputs) == ([], 0, 2)
    rig.feed(2, 3)
    assert sorted(rig.acked()) == [0, 1, 2]
    assert (rig.task.committable, rig.task.open_inputs) == (3, 1)
    assert rig.bench.counters.acked == 3


def test_an_emit_is_anchored_to_the_whole_window_and_every_tree_completes() -> None:
    rig = Rig(partial(Total, tumbling(count=3)))
    rig.feed(0, 1, 2)
    (sent,) = rig.bench.sink.to(".sink")
    assert set(sent.edges) == {1000, 1001, 1002}
    rig.acked()
    # What is left of each root is the edge that it came with and that of the child.
    expected = {1000 + n: (2000 + n) ^ sent.edges[1000 + n] for n in range(3)}
    assert rig.bench.sink.checksums() == expected


def test_an_emit_that_kafka_does_not_take_fails_every_tree_of_the_window() -> None:
    rig = Rig(partial(Total, tumbling(count=100)))
    rig.feed(*range(100))
    (sent,) = rig.bench.sink.to(".sink")
    assert len(sent.header["anchors"]) == 16 * 100
    sent.deliver("too large")
    rig.task.flush()
    assert set(rig.bench.sink.failed()) == set(range(1000, 1100))


def test_an_emit_may_name_its_anchors() -> None:
    class Each(Total):
        def execute_window(self, window: Window) -> None:
            for tuple_ in window.tuples:
                self.collector.emit((tuple_["n"],), tuple_, "each")
            self.collector.emit((0,), (), "each")
            self.collector.emit((1,), window.tuples[:2], "each")

    rig = Rig(partial(Each, tumbling(count=3)))
    rig.feed(0, 1, 2)
    roots = [set(sent.edges) for sent in rig.bench.sink.to(".sink")]
    assert roots == [{1000}, {1001}, {1002}, set(), {1000, 1001}]


def test_a_tuple_of_several_windows_is_acked_after_its_last() -> None:
    rig = Rig(partial(Total, sliding(count=4, every=2)))
    rig.feed(0, 1)
    assert (rig.totals(), rig.acked()) == ([1], [])
    rig.feed(2, 3)
    assert (rig.totals(), sorted(rig.acked())) == ([1, 6], [0, 1])
    rig.feed(4, 5)
    assert (rig.totals(), sorted(rig.acked())) == ([1, 6, 14], [0, 1, 2, 3])
    assert rig.task.committable == 4
    # 2 was in two windows: its ack covers both of their totals.
    children = [sent.edges.get(1002, 0) for sent in rig.bench.sink.to(".sink")]
    assert children[0] == 0
    assert rig.bench.sink.checksums()[1002] == 2002 ^ children[1] ^ children[2]


def test_ticks_close_windows_when_nothing_else_comes() -> None:
    rig = Rig(partial(Total, tumbling(seconds=10)))
    assert rig.bolt.tick_interval == 1.0
    rig.feed(1, 2)
    rig.tick(9)
    assert rig.totals() == []
    rig.tick(1)
    assert (rig.totals(), sorted(rig.acked())) == ([3], [1, 2])
    window = rig.bolt.windows[0]
    assert (window.start, window.end) == (100.0, 110.0)
    assert repr(window) == "<Window of 2 tuples, 2 new, 0 expired, 100.000 to 110.000 s>"
    rig.tick(10)
    assert len(rig.totals()) == 1


def test_the_next_tuple_closes_a_window_that_no_tick_has_closed() -> None:
    rig = Rig(partial(Total, tumbling(seconds=10)))
    rig.feed(1)
    rig.bench.clock.advance(12)
    rig.feed(2)
    assert (rig.totals(), rig.acked()) == ([1], [1])


def test_running_totals_from_what_is_new_and_what_has_expired() -> None:
    class Running(Total):
        total = 0

        def execute_window(self, window: Window) -> None:
            super().execute_window(window)
            self.total += sum(numbers(window.new)) - sum(numbers(window.expired))
            assert self.total == sum(numbers(window.tuples))

    rig = Rig(partial(Running, sliding(count=4, every=3)))
    rig.feed(*range(20))
    assert len(rig.totals()) == 6
    assert rig.bench.counters.failed == {}


@pytest.mark.parametrize(
    ("error", "says"), [(ValueError("no sum"), "ValueError: no sum"), (FailTupleError("later"), "later")]
)
def test_what_execute_window_raises_fails_all_of_the_window_and_the_next_begins_without_them(
    error: Exception, says: str, caplog: pytest.LogCaptureFixture
) -> None:
    rig = Rig(partial(Total, sliding(count=4, every=2)))
    rig.feed(0, 1)
    rig.bolt.raises = error
    with caplog.at_level(logging.ERROR):
        rig.feed(2, 3)
    assert len(caplog.records) == (0 if isinstance(error, FailTupleError) else 1)
    rig.bolt.raises = None
    rig.feed(4, 5)
    assert rig.acked() == []
    assert rig.bench.sink.failed() == dict.fromkeys((1000, 1001, 1002, 1003), says)
    assert rig.bench.counters.failed == {"failed": 4}
    assert numbers(rig.bolt.windows[2].tuples) == [4, 5]
    assert rig.task.committable == 4


def test_a_window_that_fails_takes_no_tuple_of_the_next_with_it() -> None:
    rig = Rig(partial(Total, tumbling(seconds=10)))
    rig.bolt.raises = ValueError("no sum")
    rig.feed(1)
    rig.bench.clock.advance(10)
    rig.feed(2)
    rig.bolt.raises = None
    rig.tick(10)
    assert rig.acked() == [2]
    assert set(rig.bench.sink.failed()) == {1001}


def test_a_failed_window_may_stop_the_component() -> None:
    rig = Rig(partial(Total, tumbling(count=2)), on_exception="crash")
    rig.bolt.raises = ValueError("no sum")
    rig.feed(0)
    with pytest.raises(ComponentError, match=r"execute\(\) raised ValueError: no sum"):
        rig.feed(1)
    assert (rig.task.committable, rig.acked(), rig.bench.sink.failed()) == (0, [], {})


def test_windows_that_fail_in_a_row_stop_the_component() -> None:
    rig = Rig(partial(Total, tumbling(count=2)), max_consecutive_failures=2)
    for raises in (ValueError("no sum"), None, ValueError("no sum"), None, FailTupleError("later"), ValueError("no")):
        rig.bolt.raises = raises
        rig.feed(0, 1)
    rig.feed(2)
    with pytest.raises(TooManyFailuresError):
        rig.feed(3)


def test_the_tuples_of_a_failed_window_may_become_dead_letters() -> None:
    rig = Rig(partial(Total, tumbling(seconds=10)), on_exception="dead_letter")
    rig.bolt.raises = ValueError("no sum")
    rig.feed(0, 1)
    rig.bench.clock.advance(10)
    # This one comes too late for the window, and is in the next.
    rig.feed(2)
    assert len(rig.bench.sink.to(".dead-letters")) == 2
    assert (sorted(rig.acked()), rig.task.open_inputs, rig.bench.sink.failed()) == ([0, 1], 1, {})


def test_tuples_of_no_window_are_acked_and_counted() -> None:
    rig = Rig(partial(Total, sliding(count=2, every_seconds=10)))
    rig.feed(0, 1, 2, 3, 4)
    rig.tick(10)
    assert (rig.totals(), sorted(rig.acked())) == ([7], [0, 1, 2])
    assert rig.bench.counters.users == {"in no window": 3}


def test_untracked_tuples_are_in_windows_too() -> None:
    rig = Rig(partial(Total, tumbling(count=2)))
    rig.feed(1, tracked=False)
    rig.feed(2)
    assert rig.acked() == [2]
    assert rig.task.committable == 2
    (sent,) = rig.bench.sink.to(".sink")
    assert set(sent.edges) == {1002}


def test_with_at_most_once_nothing_is_told_to_ackers() -> None:
    rig = Rig(partial(Total, tumbling(count=2)), guarantee="at_most_once")
    rig.feed(1, 2, 3)
    assert rig.totals() == [3]
    assert rig.task.committable == 2
    assert [sent.topic for sent in rig.bench.sink.tuples] == ["totals.tuples.sink"]
    assert rig.bench.sink.reported == []


def test_anchoring_to_what_has_expired_is_an_error() -> None:
    class Late(Total):
        def execute_window(self, window: Window) -> None:
            if window.expired:
                self.collector.emit((0,), window.expired)

    rig = Rig(partial(Late, tumbling(count=1)))
    rig.feed(0, 1)
    assert rig.acked() == [0]
    (message,) = rig.bench.sink.failed().values()
    assert message.startswith(f"{TupleAlreadyDoneError.__name__}: cannot emit anchored to the tuple at totals.tuples")


def test_a_long_window_may_restart_the_clock_of_its_trees() -> None:
    class Slow(Total):
        def execute_window(self, window: Window) -> None:
            self.collector.reset_timeout()

    rig = Rig(partial(Slow, tumbling(count=2)))
    rig.feed(0, 1)
    rig.bolt.collector.reset_timeout()
    rig.task.flush()
    assert sorted(root for batch in rig.bench.sink.batches for root in batch.reset_roots.tolist()) == [1000, 1001]


def test_outside_of_a_window_an_emit_is_anchored_to_nothing() -> None:
    rig = Rig(partial(Total, tumbling(count=2)))
    rig.feed(0, 1)
    rig.bolt.collector.emit((9,))
    assert [len(sent.edges) for sent in rig.bench.sink.to(".sink")] == [2, 0]


def test_a_prepare_that_forgets_its_parent_is_told_so() -> None:
    class Forgetful(Total):
        def prepare(self, context: TaskContext, collector: OutputCollector) -> None:
            pass

    rig = Rig(partial(Forgetful, tumbling(count=2)))
    rig.feed(0)
    assert rig.acked() == []
    assert "its prepare() must call super().prepare(context, collector)" in rig.bench.sink.failed()[1000]


def test_after_a_crash_nothing_is_lost() -> None:
    """Wherever a task ends, the next begins at the committed offset, and each tuple is in a window of one of them."""
    for crash_after in range(12):
        rig = Rig(partial(Total, sliding(count=4, every=2)))
        records = [rig.bench.record("total", (n,), {1000 + n: 2000 + n}, source="numbers/default") for n in range(12)]
        for record in records[:crash_after]:
            rig.task.execute(record)
        rig.task.flush()
        committed = rig.task.committable or 0
        acked_before = set(rig.acked())
        assert acked_before == set(range(committed))
        rig.task.cleanup()
        assert rig.task.committable in (None, committed)

        again = rig.bench.bolt("total")
        rig.task = again
        for record in records[committed:]:
            again.execute(record)
        assert set(rig.acked()) == set(range(10))
        assert again.committable == 10


def test_until_its_acks_are_delivered_a_window_is_read_again_after_a_crash() -> None:
    rig = Rig(partial(Total, tumbling(count=2)))
    rig.bench.sink.holds_back = True
    rig.feed(0, 1)
    assert sorted(rig.acked()) == [0, 1]
    assert len(rig.bench.sink.to(".sink")) == 1
    assert rig.task.committable == 0
    rig.bench.sink.deliver_all()
    assert rig.task.committable == 2


SPECS = st.one_of(
    st.builds(lambda count: tumbling(count=count), st.integers(1, 6)),
    st.builds(lambda tenths: tumbling(seconds=tenths / 10), st.integers(1, 20)),
    st.builds(lambda count, flush: tumbling(count=count, flush_after=flush), st.integers(1, 6), st.integers(1, 5)),
    st.builds(lambda a, b: sliding(count=max(a, b), every=min(a, b)), st.integers(1, 6), st.integers(1, 6)),
    st.builds(lambda a, b: sliding(seconds=max(a, b), every=min(a, b)), st.integers(1, 6), st.integers(1, 6)),
    st.builds(lambda a, b: sliding(count=a, every_seconds=b), st.integers(1, 6), st.integers(1, 6)),
    st.builds(lambda a, b: sliding(seconds=a, every_count=b), st.integers(1, 6), st.integers(1, 6)),
)


@given(SPECS, st.lists(st.tuples(st.floats(0, 8), st.integers(0, 4)), max_size=25), st.integers(0, 2**32))
def test_every_tree_completes_whatever_the_windows(spec: WindowSpec, steps: list[tuple[float, int]], seed: int) -> None:
    """Each tuple is acked once, in order, after its last window; and its tree's checksum ends at zero."""
    rng = random.Random(seed)
    rig = Rig(partial(Total, spec))
    created: dict[int, int] = defaultdict(int)
    for pause, tuples in steps:
        rig.tick(pause)
        for _ in range(tuples):
            rig.bolt.raises = FailTupleError("now and then") if rng.random() < 0.1 else None
            # Some trees have several tuples here, and some tuples are of several trees.
            edges = {rng.randrange(8): rng.getrandbits(64) for _ in range(rng.randrange(3))}
            for root, edge in edges.items():
                created[root] ^= edge
            rig.task.execute(rig.bench.record("total", (rig.fed,), edges, source="numbers/default"))
            rig.fed += 1
    rig.task.flush()
    counters = rig.bench.counters
    held: list[Tuple] = list(rig.bolt._manager.clear())
    assert counters.acked + counters.failed.get("failed", 0) == rig.fed - len(held)
    assert numbers(held) == list(range(rig.fed - len(held), rig.fed))
    assert all(not tuple_.settled for tuple_ in held)
    assert rig.task.committable == (None if not rig.fed else rig.fed - len(held))
    # With what is held acked, and the children, nothing is left of a tree that did not fail.
    for tuple_ in held:
        rig.bolt._settling.ack(tuple_)
    rig.task.flush()
    for sent in rig.bench.sink.to(".sink"):
        for root, edge in sent.edges.items():
            created[root] ^= edge
    for root, val in rig.bench.sink.checksums().items():
        if root not in rig.bench.sink.failed():
            assert val == created[root]
