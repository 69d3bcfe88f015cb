"""The lock between the command and the driver."""

import fcntl
import logging
import threading
from collections.abc import Iterator
from io import FileIO
from pathlib import Path

import pytest

from spark_jobs.submit import LIFELINE_VARIABLE, stop_with_submitter
from tests.waiting import eventually


def stay(_code: int) -> None:
    """For code that would end the tests."""


@pytest.fixture
def lifeline(tmp_path: Path) -> Path:
    (tmp_path / "of-its-own").mkdir()
    return tmp_path / "of-its-own" / "lifeline"


@pytest.fixture
def held(lifeline: Path) -> Iterator[FileIO]:
    """The file of a submitter, which has its lock."""
    with FileIO(lifeline, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file


@pytest.mark.parametrize("is_killed", [False, True])
def test_the_driver_stops_with_its_submitter(
    lifeline: Path, held: FileIO, is_killed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    stopped = threading.Event()
    with caplog.at_level(logging.WARNING):
        stop_with_submitter(stopped.set, {LIFELINE_VARIABLE: str(lifeline)}, end=stay)
        assert not lifeline.parent.exists(), "no file is left after a kill"
        assert not stopped.is_set()
        if not is_killed:
            held.write(b"\n")
        held.close()
        eventually(stopped.is_set, "the driver to stop")
    assert ("is gone" in caplog.text) == is_killed


def test_a_driver_that_begins_too_late_stops(lifeline: Path, held: FileIO) -> None:
    held.close()
    stopped = threading.Event()
    stop_with_submitter(stopped.set, {LIFELINE_VARIABLE: str(lifeline)}, end=stay)
    eventually(stopped.is_set, "the driver to stop")


def test_a_driver_whose_file_was_deleted_stops(lifeline: Path) -> None:
    stopped = threading.Event()
    stop_with_submitter(stopped.set, {LIFELINE_VARIABLE: str(lifeline)})
    assert stopped.is_set()


def test_a_driver_without_a_lifeline_keeps_running() -> None:
    stopped = threading.Event()
    stop_with_submitter(stopped.set, {})
    assert not stopped.is_set()
