"""A windowed bolt's task, driven record by record without Kafka: emits, acks, fails and offsets to commit."""

from functools import partial

import pytest

from spout_sdk import (
    ComponentError,
    FailTupleError,
    TaskContext,
    TooManyFailuresError,
    Window,
    WindowCollector,
    sliding,
    tumbling,
)
from tests.unit.sdk.windowed_bolt_rig import Rig, Total, numbers


def test_an_emit_may_name_its_anchors_and_outside_of_a_window_there_are_none() -> None:
    class Each(Total):
        def execute_window(self, window: Window) -> None:
            for tuple_ in window.tuples:
                self.collector.emit((tuple_["n"],), anchors=tuple_, stream="each")
            self.collector.emit((0,), anchors=(), stream="each")
            self.collector.emit((1,), anchors=window.tuples[:2], stream="each")
            if window.expired:
                self.collector.emit((0,), anchors=window.expired)

    rig = Rig(partial(Each, tumbling(count=3)))
    rig.feed(0, 1, 2)
    rig.bolt.collector.emit((9,))
    assert [set(edges) for edges in rig.edges()] == [{1000}, {1001}, {1002}, set(), {1000, 1001}, set()]
    rig.feed(3, 4, 5)
    assert rig.acked() == [1, 2], "an emit after the ack fails the tree"
    assert all("cannot emit anchored to the tuple at totals.tuples" in why for why in rig.bench.sink.failed().values())


def test_ticks_and_later_tuples_close_windows_by_time() -> None:
    rig = Rig(partial(Total, tumbling(seconds=10)))
    assert rig.task.adapter.tick_interval == 1.0
    rig.feed(1, 2)
    rig.tick(9)
    assert rig.totals() == []
    rig.tick(1)
    assert (rig.totals(), rig.acked()) == ([3], [1, 2])
    window = rig.bolt.windows[0]
    assert (window.start, window.end) == (100.0, 110.0)
    assert repr(window) == "<Window of 2 tuples, 2 new, 0 expired, 100.000 to 110.000 s>"
    rig.feed(3)
    rig.bench.clock.advance(12)
    rig.feed(4)
    assert (rig.totals(), rig.acked()) == ([3, 3], [1, 2, 3])


@pytest.mark.parametrize(
    ("error", "message", "logged"),
    [(ValueError("no sum"), "ValueError: no sum", 1), (FailTupleError("later"), "later", 0)],
)
def test_an_exception_fails_all_tuples_of_the_window_and_the_next_has_none_of_them(
    error: Exception, message: str, logged: int, caplog: pytest.LogCaptureFixture
) -> None:
    rig = Rig(partial(Total, sliding(count=4, every=2)))
    rig.feed(0, 1)
    rig.bolt.raises = error
    rig.feed(2, 3)
    rig.bolt.raises = None
    rig.feed(4, 5)
    assert (rig.acked(), len(caplog.records)) == ([], logged)
    assert rig.bench.sink.failed() == dict.fromkeys((1000, 1001, 1002, 1003), message)
    assert (numbers(rig.bolt.windows[2].tuples), rig.task.committable) == ([4, 5], 4)


@pytest.mark.parametrize("on_exception", ["fail", "dead_letter"])
def test_a_failed_window_fails_no_tuple_of_the_next(on_exception: str) -> None:
    rig = Rig(partial(Total, tumbling(seconds=10)), on_exception=on_exception)
    rig.bolt.raises = ValueError("no sum")
    rig.feed(0, 1)
    rig.bench.clock.advance(10)
    # This one comes too late for the window, and is in the next.
    rig.feed(2)
    rig.task.flush()
    assert rig.task.open_inputs == 1
    if on_exception == "fail":
        assert set(rig.bench.sink.failed()) == {1000, 1001}
    else:
        assert (len(rig.bench.sink.to(".dead-letters")), rig.acked(), rig.bench.sink.failed()) == (2, [0, 1], {})
    rig.bolt.raises = None
    rig.tick(10)
    assert rig.acked()[-1] == 2


def test_failed_windows_may_stop_the_component() -> None:
    rig = Rig(partial(Total, tumbling(count=2)), on_exception="crash")
    rig.bolt.raises = ValueError("no sum")
    rig.feed(0)
    with pytest.raises(ComponentError, match=r"execute\(\) raised ValueError: no sum"):
        rig.feed(1)
    assert (rig.task.committable, rig.acked(), rig.bench.sink.failed()) == (0, [], {})
    rig = Rig(partial(Total, tumbling(count=2)), max_consecutive_failures=2, on_consecutive_failures="stop")
    for raises in (ValueError("no sum"), None, ValueError("no sum"), None, FailTupleError("later"), ValueError("no")):
        rig.bolt.raises = raises
        rig.feed(0, 1)
    rig.feed(2)
    with pytest.raises(TooManyFailuresError):
        rig.feed(3)


def test_untracked_tuples_are_in_windows() -> None:
    rig = Rig(partial(Total, tumbling(count=2)))
    rig.feed(1, tracked=False)
    rig.feed(2)
    assert (rig.acked(), rig.task.committable, [set(edges) for edges in rig.edges()]) == ([2], 2, [{1002}])


def test_prepare_may_call_super_and_may_keep_the_collector_as_in_other_bolts() -> None:
    class Keeps(Total):
        def prepare(self, context: TaskContext, collector: WindowCollector) -> None:
            assert (self.context, self.collector) == (context, collector)
            super().prepare(context, collector)
            self.collector = collector

    rig = Rig(partial(Keeps, tumbling(count=2)))
    rig.feed(0, 1)
    assert (rig.acked(), [set(edges) for edges in rig.edges()]) == ([0, 1], [{1000, 1001}])
