"""When a loop whose input is idle flushes."""

import pytest

from spout_sdk.emitting.task import FlushTiming


class Rig:
    def __init__(self) -> None:
        self.now = 100.0
        self.sent = 0
        self.timing = FlushTiming(lambda: self.now, lambda: self.sent)
        self.timing.flushed(0)


def test_an_idle_task_flushes_immediately_if_all_records_are_delivered() -> None:
    rig = Rig()
    assert rig.timing.wait_seconds(1) == 0


def test_an_idle_task_waits_for_records_in_flight_for_five_milliseconds_at_most() -> None:
    rig = Rig()
    rig.sent = 1
    waits = []
    while seconds := rig.timing.wait_seconds(1):
        waits.append(seconds)
        rig.now += seconds
        assert len(waits) < 10
    assert sum(waits) == pytest.approx(0.005)
    rig.timing.flushed(1)
    assert rig.timing.wait_seconds(2) > 0
    rig.sent = 0
    assert rig.timing.wait_seconds(2) == 0


def test_a_busy_task_flushes_every_five_milliseconds() -> None:
    rig = Rig()
    assert rig.timing.wait_seconds(32) == pytest.approx(0.005)
    rig.now += 0.004
    assert rig.timing.wait_seconds(40) == pytest.approx(0.001)
    rig.now += 0.0011
    assert rig.timing.wait_seconds(41) == 0


def test_a_task_without_records_to_flush_does_not_wait() -> None:
    rig = Rig()
    rig.sent = 1
    rig.timing.flushed(7)
    assert rig.timing.wait_seconds(7) == 0
