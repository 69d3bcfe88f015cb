"""A worker process: which components it runs, and its end when one of them fails."""

import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from spout_sdk.errors import TopologyError
from spout_sdk.runtime import TopologyRunner
from spout_sdk.runtime import worker as worker_module
from spout_sdk.runtime.supervisor import place
from spout_sdk.runtime.worker import Worker
from tests.manifests import bolt, spout
from tuple_tree.components import Component

COMPONENTS: list[Component] = [
    spout("lines", tasks=2),
    bolt("split", "lines"),
    bolt("count", "split", tasks=3),
    bolt("sink", "count"),
]
KAFKA = {"bootstrap.servers": "127.0.0.1:1"}
ORDERS = ["orders", "check", "price", "ledger", "review"]


@pytest.mark.parametrize(
    ("count", "workers"),
    [
        (1, [["lines", "split", "count", "sink"]]),
        (2, [["lines", "split", "count"], ["lines", "count", "sink"]]),
        (3, [["lines", "count", "sink"], ["lines", "count"], ["split", "count"]]),
        (9, [["lines"], ["lines"], ["split"], ["count"], ["count"], ["count"], ["sink"]]),
    ],
)
def test_components_are_spread_over_workers_by_their_tasks(count: int, workers: list[list[str]]) -> None:
    assert place(COMPONENTS, count) == workers


@pytest.mark.parametrize(
    ("processes", "error"),
    [
        (0, "processes is 0: a topology needs one at least"),
        ([ORDERS[:4]], "processes leaves out review: name each component"),
        ([ORDERS, *[["check"]] * 9], "'check' cannot run in 10 processes: it has 2 tasks"),
        ([[*ORDERS, "none"]], "processes names 'none', but the topology has"),
    ],
)
def test_processes_that_do_not_fit_the_topology(processes: Any, error: str) -> None:
    with pytest.raises(TopologyError, match=error):
        TopologyRunner("examples.orders:topology", KAFKA, processes)


class Running:
    """A component that runs until it is stopped, or does what it is given."""

    def __init__(self, run: Callable[[], object] | None = None) -> None:
        self.stopped, self.threads = threading.Event(), list[str]()
        self._run = run or (lambda: self.stopped.wait(60))

    def run(self) -> None:
        self.threads.append(threading.current_thread().name)
        self._run()

    def stop(self) -> None:
        self.stopped.set()


def run_worker(runners: Mapping[str, Running], seconds: float = 60.0) -> tuple[int, list[tuple[str, Any]]]:
    """The exit code, and what is reported by which component."""
    reports: list[tuple[str, Any]] = []
    worker = Worker(runners, lambda name, report: reports.append((name, report["error"])), lambda _error: 4, seconds)
    return worker.run(), reports


def test_each_component_has_a_thread_and_the_others_stop_when_one_fails() -> None:
    def fail() -> None:
        raise KeyError("URL")

    runners = {"lines": Running(), "split": Running(fail), "count": Running()}
    assert run_worker(runners) == (4, [("split", "KeyError: 'URL'; the log has the traceback")])
    assert [each.threads for each in runners.values()] == [["lines"], ["split"], ["count"]]


def test_code_that_ends_its_thread_ends_the_worker() -> None:
    assert run_worker({"lines": Running(), "split": Running(sys.exit)})[0] == 4


def test_a_worker_ends_by_force_if_a_component_does_not_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    class EndedError(Exception): ...

    def end(why: str, code: int) -> None:
        raise EndedError(why, code)

    monkeypatch.setattr(worker_module, "end_process", end)
    monkeypatch.setattr(worker_module, "_WAKE_SECONDS", 0.01)
    hanging = threading.Event()
    with pytest.raises(EndedError, match=r"count did not stop in 0 s, and split has failed.*4"):
        run_worker({"split": Running(sys.exit), "count": Running(lambda: hanging.wait(60))}, 0.0)
    hanging.set()
