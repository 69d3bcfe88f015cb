"""The pipe between the command and the driver."""

import logging
import os
import threading
from collections.abc import Iterator
from io import FileIO
from pathlib import Path

import pytest

from spark_jobs.submit import PIPE_VARIABLE, stop_with_submitter
from tests.waiting import eventually


def stay(_code: int) -> None:
    """For code that would end the tests."""


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    (tmp_path / "of-its-own").mkdir()
    return tmp_path / "of-its-own" / "pipe"


@pytest.fixture
def held(pipe: Path) -> Iterator[FileIO]:
    """The submitter's end."""
    os.mkfifo(pipe)
    with FileIO(pipe, "r+") as file:
        yield file


@pytest.mark.parametrize("is_killed", [False, True])
def test_the_driver_stops_with_its_submitter(
    pipe: Path, held: FileIO, is_killed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    stopped = threading.Event()
    with caplog.at_level(logging.WARNING):
        stop_with_submitter(stopped.set, {PIPE_VARIABLE: str(pipe)}, end=stay)
        assert not pipe.parent.exists(), "no file is left after a kill"
        assert not stopped.is_set()
        if not is_killed:
            held.write(b"\n")
        held.close()
        eventually(stopped.is_set, "the driver to stop")
    assert ("has ended" in caplog.text) == is_killed


def test_a_driver_stops_if_its_submitter_was_killed_or_its_pipe_deleted_before_it_began(
    pipe: Path, held: FileIO, tmp_path: Path
) -> None:
    held.close()
    for path in (pipe, tmp_path / "deleted" / "pipe"):
        stopped = threading.Event()
        stop_with_submitter(stopped.set, {PIPE_VARIABLE: str(path)}, end=stay)
        eventually(stopped.is_set, "the driver to stop")


def test_a_driver_without_a_pipe_keeps_running() -> None:
    stopped = threading.Event()
    stop_with_submitter(stopped.set, {})
    assert not stopped.is_set()
