"""The pace of the demo's spout."""

from acker_cli.demo.pace import Pace


def test_it_lets_through_so_many_a_second() -> None:
    now = 100.0
    pace = Pace(4.0, lambda: now)
    allowed = []
    for _ in range(8):
        allowed += [pace.allows(), pace.allows()]
        now += 0.125
    assert allowed == [True, False, False, False] * 4


def test_what_was_missed_is_not_made_up_for() -> None:
    now = 100.0
    pace = Pace(4.0, lambda: now)
    now += 60
    assert [pace.allows() for _ in range(3)] == [True, False, False]


def test_without_a_rate_everything_passes() -> None:
    pace = Pace(0.0, lambda: 1.0)
    assert all(pace.allows() for _ in range(1000))
