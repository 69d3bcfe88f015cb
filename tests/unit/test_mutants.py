"""The deliberate faults: each can be applied, and the page about them lists each with its test."""

import os
import re
from pathlib import Path
from typing import Any

import pytest

from tests.mutants.catalogue import MUTANTS
from tests.mutants.patches import MISTAKEN, Mutant, Patches
from tuple_tree.offsets import OffsetManager

PAGE = Path(__file__).parents[2] / "docs/contributing/checking-the-tests.md"
ROW = re.compile(r"^\| ([^|]+: [^|]+) \| \[`(\w[\w.]*)`\]", re.MULTILINE)


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS)
def test_a_mutant_replaces_what_exists(mutant: Mutant) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        mutant.apply(Patches(monkeypatch))


def test_each_mutant_is_on_the_page_with_its_test() -> None:
    rows = ROW.findall(PAGE.read_text())
    assert rows == [(mutant.name, re.split("::|/", mutant.test.partition("[")[0])[-1]) for mutant in MUTANTS.values()]


def test_an_exception_of_a_mutant_itself_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the tests would fail by it, as if they had found the fault."""
    without_open_to: Any = object()
    ended: list[int] = []
    MUTANTS["offsets: a hole is passed"].apply(Patches(monkeypatch))
    monkeypatch.setattr(os, "_exit", ended.append)
    monkeypatch.setattr(os, "write", lambda *_: 0)
    with pytest.raises(AttributeError):
        OffsetManager.all_done(without_open_to, [1])
    assert ended == [MISTAKEN]
