"""A supervisor, with processes that only note what happens to them."""

import threading
from collections.abc import Iterator, Mapping
from signal import SIGKILL, Signals
from typing import Any, cast

import pytest

from kafka_clients.supervision import Backoff, ChildProcess, Slot, Supervisor
from tests.waiting import eventually


class Nothing:
    def retired(self) -> "Nothing":
        return self


class Child:
    """A process that runs until it is killed."""

    pid = 1

    def __init__(self) -> None:
        self.launches: list[Mapping[str, Any]] = []
        self.is_discarded = False
        self._ended = threading.Event()

    @property
    def is_running(self) -> bool:
        return not self._ended.is_set()

    def launch(self, launch: Mapping[str, Any]) -> "Child":
        self.launches.append(launch)
        return self

    def discard(self) -> None:
        self.is_discarded = True

    def reports(self) -> Iterator[dict[str, Any]]:
        return iter(())

    def signal(self, _number: Signals) -> None:
        self._ended.set()

    def wait(self) -> int:
        assert self._ended.wait(60)
        return -SIGKILL


class Supervised(Supervisor[Nothing]):
    """One place, with pauses that do not end by themselves."""

    def __init__(self) -> None:
        super().__init__(lambda _stats: Nothing(), lambda one, _other: one, lambda name, why: RuntimeError(name, why))
        self.children: list[Child] = []
        slot = Slot(("work",), self._spawn, lambda: {"number": len(self.children)}, {"work": Nothing()})
        slot.backoff = Backoff(first=3_600, longest=3_600)
        self._slots = [slot]

    def _spawn(self) -> ChildProcess:
        self.children.append(Child())
        return cast(ChildProcess, self.children[-1])

    def _on_exit(self, slot: Slot[Nothing], pid: int, code: int, pause: float) -> Exception | None:
        assert (slot.name, pid, code, pause) == ("work", 1, -SIGKILL, 3_600)
        return None


@pytest.fixture
def supervised() -> Iterator[Supervised]:
    with Supervised() as supervised:
        eventually(lambda: bool(supervised.children) and bool(supervised.children[0].launches), "a process")
        yield supervised


def test_a_successor_imports_during_the_pause_and_is_launched_after_it(supervised: Supervised) -> None:
    supervised.children[0].signal(SIGKILL)
    eventually(lambda: len(supervised.children) == 2, "a successor")
    killed, successor = supervised.children
    assert killed.launches == [{"number": 1}]
    assert (successor.is_discarded, successor.launches) == (False, [])
    supervised.stop()
    assert (successor.is_discarded, successor.launches) == (True, [])


def test_a_process_that_is_stopped_has_no_successor(supervised: Supervised) -> None:
    supervised.stop()
    assert [child.is_running for child in supervised.children] == [False]
