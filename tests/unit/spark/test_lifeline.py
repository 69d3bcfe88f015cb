"""The pipe between the command and the driver."""

import threading
from pathlib import Path

import pytest

from spark_jobs.submit import LIFELINE_VARIABLE, Lifeline, stop_with_submitter
from tests.waiting import eventually


def stay(_code: int) -> None:
    """For code that would end the tests."""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    made = tmp_path / "of-its-own"
    made.mkdir()
    return made


def test_the_driver_receives_a_stop(directory: Path) -> None:
    lifeline, stopped = Lifeline(directory), threading.Event()
    stop_with_submitter(stopped.set, {LIFELINE_VARIABLE: str(lifeline.path)}, end=stay)
    assert not directory.exists(), "no file is left after a kill"
    assert not stopped.is_set()
    assert lifeline.end(), "a driver reads it"
    eventually(stopped.is_set, "the driver to stop")
    assert not lifeline.end(), "once is enough"


def test_a_driver_that_begins_too_late_stops(directory: Path) -> None:
    lifeline, stopped = Lifeline(directory), threading.Event()
    assert not lifeline.end(), "there is no driver yet"
    stop_with_submitter(stopped.set, {LIFELINE_VARIABLE: str(lifeline.path)}, end=stay)
    eventually(stopped.is_set, "the driver to stop")


def test_a_driver_whose_pipe_was_deleted_stops(directory: Path) -> None:
    stopped = threading.Event()
    stop_with_submitter(stopped.set, {LIFELINE_VARIABLE: str(directory / "lifeline")})
    assert stopped.is_set()


def test_a_driver_without_a_lifeline_keeps_running() -> None:
    stopped = threading.Event()
    stop_with_submitter(stopped.set, {})
    assert not stopped.is_set()
