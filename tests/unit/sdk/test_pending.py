"""The open trees of a spout task."""

from spout_sdk.pending import Pending


def test_a_root_is_held_once_until_its_outcome() -> None:
    lost: list[str] = []
    pending = Pending(10, 0.0, lost.append)
    assert pending.put(7, "m", 1.0)
    pending.tick(6.0)
    assert not pending.put(7, "n", 6.0)
    assert (len(pending), 7 in pending) == (1, True)
    assert pending.pop(7) == ("m", 1.0)
    assert pending.pop(7) is None
    pending.tick(1000.0)
    assert (len(pending), 7 in pending, lost) == (0, False, [])


def test_silence_is_lost_not_before_its_time_and_not_long_after() -> None:
    for put_at in (0.0, 1.0, 4.9, 5.0, 7.3):
        lost: list[str] = []
        pending = Pending(10, 0.0, lost.append)
        pending.tick(put_at)
        pending.put(1, "m", put_at)
        now = put_at
        while not lost:
            now += 0.125
            pending.tick(now)
        assert 10 <= now - put_at <= 15.125
        assert len(pending) == 0


def test_after_a_long_pause_at_most_one_cohort_is_lost_before_the_notices_are_read() -> None:
    lost: list[str] = []
    pending = Pending(10, 0.0, lost.append)
    pending.put(1, "a", 0.0)
    pending.tick(6.0)
    pending.put(2, "b", 6.0)
    for now, expected in ((10_000.0, []), (10_005.0, ["a"]), (10_010.0, ["a", "b"])):
        pending.tick(now)
        assert lost == expected
