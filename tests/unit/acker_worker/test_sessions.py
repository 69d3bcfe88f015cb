"""Repeats and fenced writers, recognised from the log."""

from acker_worker.sessions import Sessions

OLD, NEW, OTHER = b"old-" * 4, b"new-" * 4, b"oth-" * 4


def judge(sessions: Sessions, session: bytes, sequence: int, *, opens: bool = False, offset: int = 0) -> str:
    return sessions.judge("b/0", session, sequence, opens=opens, offset=offset).name


def test_a_sequence_up_to_the_last_one_is_a_repeat() -> None:
    sessions = Sessions()
    assert [judge(sessions, OLD, n)[0] for n in (0, 1, 1, 0, 5, 4, 6)] == ["C", "C", "R", "R", "C", "R", "C"]


def test_an_opening_supersedes_earlier_sessions_permanently() -> None:
    sessions = Sessions()
    judge(sessions, OLD, 0, opens=True)
    assert judge(sessions, NEW, 0, opens=True) == "CURRENT"
    assert judge(sessions, NEW, 0, opens=True) == "REPEATED"
    assert judge(sessions, OLD, 1) == "SUPERSEDED"
    assert judge(sessions, OLD, 0, opens=True) == "SUPERSEDED"
    assert judge(sessions, NEW, 1) == "CURRENT"


def test_sessions_opened_before_the_window_are_in_the_commit() -> None:
    before = Sessions()
    judge(before, OLD, 0, opens=True, offset=10)
    judge(before, NEW, 0, opens=True, offset=20)
    judge(before, OTHER, 0, opens=True, offset=30)
    handed_on = before.opened_before(25)
    assert handed_on == {"b/0": (NEW[:8], OLD[:8])}

    after = Sessions(handed_on)
    assert judge(after, OLD, 5) == "SUPERSEDED"
    assert judge(after, OLD, 0, opens=True) == "SUPERSEDED"
    assert judge(after, NEW, 1, offset=26) == "CURRENT"
    assert judge(after, OTHER, 0, opens=True, offset=30) == "CURRENT"
    assert judge(after, NEW, 2, offset=31) == "SUPERSEDED"
    assert after.opened_before(31) == before.opened_before(31)


def test_idle_writers_are_dropped() -> None:
    sessions = Sessions()
    judge(sessions, OLD, 0, opens=True)
    sessions.rotate()
    assert len(sessions) == 1
    sessions.rotate()
    assert len(sessions) == 0
