"""A component that cannot be prepared is not started for ever; the reason of the last start is the error."""

import json
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any

import pytest

from kafka_clients.supervision import Backoff
from spout_sdk.errors import ComponentError, NotPreparedError, ProcessError, SpoutSdkError, TopologyError
from spout_sdk.runtime import Exit, TopologyRunner, process
from spout_sdk.runtime.supervisor import EXIT_BROKEN, EXIT_GAVE_UP, EXIT_NOT_PREPARED, EXIT_UNUSABLE, MAX_STARTS, Launch
from spout_sdk.statistics.stats import Stats

REFERENCE = "examples.orders:topology"
WHY = "check/0 stopped: prepare() raised KeyError: 'URL'; the log has the traceback"


@dataclass
class Child:
    """A process that has ended, with what it had reported."""

    code: int
    executed: int = 0
    pid: int = 7
    is_running: bool = False

    def signal(self, _number: int) -> None: ...

    def reports(self) -> Iterator[dict[str, Any]]:
        # The other components of its worker may do their work.
        yield {"name": "orders", "stats": Stats("orders", emitted=self.pid).to_dict()}
        yield {"name": "check", "stats": Stats("check", executed=self.executed).to_dict()}
        if self.code > 0:
            yield {"name": "check", "error": WHY}
            yield {"name": "orders", "error": "a second error, which follows from the first"}

    def launch(self, _launch: object) -> "Child":
        return self

    def wait(self) -> int:
        return self.code


NOT_PREPARED = Child(EXIT_NOT_PREPARED)


def started(monkeypatch: pytest.MonkeyPatch, children: Iterator[Child]) -> tuple[list[Exit], str]:
    """The exits of the processes of one worker, and the error at the end."""
    monkeypatch.setattr("spout_sdk.runtime.supervisor.ChildProcess", lambda *_: next(children))
    exits: list[Exit] = []
    runner = TopologyRunner(REFERENCE, {"bootstrap.servers": "127.0.0.1:1"}, 1, on_exit=exits.append)
    for slot in runner._slots:
        slot.backoff = Backoff(0, 0)
    with pytest.raises(ProcessError) as raised:
        runner.run()
    return exits, str(raised.value)


def test_ten_starts_in_a_row_that_fail_end_all_with_the_last_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    exits, error = started(monkeypatch, repeat(NOT_PREPARED))
    assert error == f"check: {MAX_STARTS} starts in a row failed, the last one: {WHY}"
    assert [each.restarts_in is None for each in exits] == [False] * (MAX_STARTS - 1) + [True]


@pytest.mark.parametrize(
    ("other", "is_a_start"),
    [(Child(EXIT_BROKEN), False), (Child(-9), False), (Child(EXIT_NOT_PREPARED, executed=3), True)],
    ids=["an error", "a kill", "it has executed tuples"],
)
def test_another_end_begins_the_count_anew(monkeypatch: pytest.MonkeyPatch, other: Child, is_a_start: bool) -> None:
    exits, _ = started(monkeypatch, chain([NOT_PREPARED] * (MAX_STARTS - 1), [other], repeat(NOT_PREPARED)))
    assert len(exits) == MAX_STARTS - 1 + MAX_STARTS + (not is_a_start)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (NotPreparedError("check", 0, "prepare", KeyError("URL")), EXIT_NOT_PREPARED),
        (ComponentError("check", 0, "execute", KeyError("URL")), EXIT_BROKEN),
        (TopologyError("component 'check': Check.execute takes (self, tuple_)"), EXIT_GAVE_UP),
        (None, EXIT_UNUSABLE),
    ],
)
def test_the_exit_code_of_a_process(monkeypatch: pytest.MonkeyPatch, error: SpoutSdkError | None, code: int) -> None:
    class Runner:
        def __init__(self, _topology: object, component: str, *_: object, **_options: object) -> None:
            self._fails, self._stopped = component == "check", threading.Event()
            if error is None:
                raise TopologyError("there is no such component")

        def stop(self) -> None:
            self._stopped.set()

        def run(self) -> None:
            if self._fails:
                assert error is not None
                raise error
            assert self._stopped.wait(60)

    monkeypatch.setattr(process, "ComponentRunner", Runner)
    monkeypatch.setattr(process, "stop_with_supervisor", lambda *_: None)
    monkeypatch.setattr(process, "collect_rarely", lambda: None)
    read, write = os.pipe()
    try:
        components = ("orders", "check")
        launch = Launch({}, dict.fromkeys(components, "slot"), reports=write)
        assert process.run_worker(REFERENCE, components, launch) == code
        [report] = map(json.loads, os.read(read, 4096).splitlines())
        assert report == {
            "name": "orders" if error is None else "check",
            "error": str(error or "there is no such component"),
        }
    finally:
        os.close(read)
        os.close(write)
