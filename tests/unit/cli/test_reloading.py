"""A topology that is started again when a file of it is saved."""

import importlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from acker_cli.errors import SettingsError
from acker_cli.processes.reloading import SourceWatch, run_reloading


@pytest.fixture
def watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SourceWatch]:
    """Of a module that imports one of a folder, and of one beside it that is not imported."""
    (tmp_path / "shelf").mkdir()
    (tmp_path / "shelf" / "prices.py").write_text("TEA = 3\n")
    (tmp_path / "till.py").write_text("from shelf import prices\nTOTAL = 2 * prices.TEA\n")
    (tmp_path / "test_till.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setitem(os.environ, "PYTHONDONTWRITEBYTECODE", "")
    load: Callable[[str], Any] = importlib.import_module
    yield SourceWatch(tmp_path, load)
    for name in ("till", "shelf", "shelf.prices"):
        sys.modules.pop(name, None)


def total(watch: SourceWatch) -> int:
    loaded: Any = watch.load("till")
    found: int = loaded.TOTAL
    return found


def test_an_imported_module_that_is_saved_is_imported_again(tmp_path: Path, watch: SourceWatch) -> None:
    assert total(watch) == 6
    (tmp_path / "test_till.py").write_text("pass\n")
    assert [watch.has_changed() for _ in range(3)] == [False] * 3
    for price in (4, 5):  # in the same second, and of the same size
        (tmp_path / "shelf" / "prices.py").write_text(f"TEA = {price}\n")
        assert [watch.has_changed() for _ in range(2)] == [False, True]  # it may be incomplete at the first look
        assert watch.changed == ["shelf/prices.py"]
        assert total(watch) == 2 * price
        assert [watch.has_changed() for _ in range(3)] == [False] * 3


def test_after_an_error_new_modules_count_as_well(tmp_path: Path, watch: SourceWatch) -> None:
    assert total(watch) == 6
    (tmp_path / "till.py").write_text("import taxes, no_such_module\n")
    assert [watch.has_changed() for _ in range(2)] == [False, True]
    with pytest.raises(ModuleNotFoundError):
        watch.load("till")
    (tmp_path / "taxes.py").write_text("")
    assert [watch.has_changed() for _ in range(2)] == [False, True]
    assert watch.changed == ["taxes.py"]
    with pytest.raises(ModuleNotFoundError):
        watch.load("till")
    (tmp_path / "till.py").write_text("TOTAL = 1\n")
    assert [watch.has_changed() for _ in range(2)] == [False, True]
    assert total(watch) == 1


def test_an_error_is_shown_and_nothing_runs_until_the_next_save(tmp_path: Path, watch: SourceWatch) -> None:
    events: list[str] = []

    def load() -> Any:
        try:
            return total(watch)
        except SyntaxError as error:
            raise SettingsError("invalid syntax") from error

    def run(plan: Any) -> bool:
        events.append(f"run {plan}")
        if plan == 8:
            return True  # it was stopped
        (tmp_path / "till.py").write_text("TOTAL =\n")
        while not watch.has_changed():
            pass
        return False

    def pause(_seconds: float) -> None:
        if events[-1] != "wait":
            (tmp_path / "till.py").write_text("TOTAL = 8\n")
        events.append("wait")

    run_reloading(watch, load(), load, run, events.append, pause)
    assert events == [
        "run 6",
        "till.py changed: starting again",
        "invalid syntax\nnothing runs until a file is saved",
        "wait",
        "wait",
        "till.py changed: starting again",
        "run 8",
    ]
