"""What several browsers ask for at once is read once."""

import threading
from collections.abc import Sequence

import pytest

from acker_worker.errors import BrokerUnreachableError
from inspection.dashboard.kafka_source import _Cached
from inspection.dashboard.source import Shown

SLOW_S = 7.0


class Slow:
    """Takes its time, by a clock of its own, and until it is let go on."""

    def __init__(self, problem: Exception | None = None) -> None:
        self.now = 0.0
        self.reads = 0
        self.problem = problem
        self.begun, self.go_on = threading.Event(), threading.Event()

    def read(self) -> Sequence[Shown]:
        self.reads += 1
        self.begun.set()
        assert self.go_on.wait(60)
        self.now += SLOW_S
        if self.problem is not None:
            raise self.problem
        return [{"read": self.reads}]


def asked_by(cached: _Cached, slow: Slow, browsers: int) -> list[object]:
    """What so many are told who ask while it is read for the first of them."""
    told: list[object] = []

    def ask() -> None:
        try:
            told.append(cached.read())
        except BrokerUnreachableError as error:
            told.append(str(error))

    threads = [threading.Thread(target=ask) for _ in range(browsers)]
    for thread in threads:
        thread.start()
        assert slow.begun.wait(60)
    slow.go_on.set()
    for thread in threads:
        thread.join(60)
    return told


@pytest.mark.parametrize("problem", [None, BrokerUnreachableError("nobody answers")])
def test_a_slow_read_is_for_all_who_wait(problem: Exception | None) -> None:
    """Else each of them would wait for those before, and they would be more and more."""
    slow = Slow(problem)
    cached = _Cached(slow.read, lambda: slow.now)
    told = asked_by(cached, slow, 4)
    assert told == [[{"read": 1}] if problem is None else "nobody answers"] * 4
    assert slow.reads == 1


def test_it_is_read_again_after_a_second() -> None:
    slow = Slow()
    slow.go_on.set()
    cached = _Cached(slow.read, lambda: slow.now)
    assert cached.read() == cached.read() == [{"read": 1}]
    slow.now += 1.0
    assert cached.read() == [{"read": 2}]
