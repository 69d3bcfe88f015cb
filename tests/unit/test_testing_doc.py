"""The Python of `docs/testing.md`, and the tests in the README, are run as they stand there."""

import sys
from types import ModuleType
from typing import Any

import pytest

from tests.pages import blocks, names_of


def run_tests(names: dict[str, Any]) -> int:
    """Runs the tests among these names; returns how many there are."""
    tests = [name for name in names if name.startswith("test_")]
    for name in tests:
        names[name]()
    return len(tests)


def test_the_page() -> None:
    assert run_tests(names_of("docs/testing.md")) > 5


def test_the_readme(monkeypatch: pytest.MonkeyPatch) -> None:
    (first,) = (block for block in blocks("README.md") if block.startswith("# first.py"))
    (tests,) = (block for block in blocks("README.md") if block.startswith("# test_first.py"))
    module = ModuleType("first")
    exec(first, module.__dict__)
    monkeypatch.setitem(sys.modules, "first", module)
    names: dict[str, Any] = {"__name__": "test_first"}
    exec(tests, names)
    assert run_tests(names) == 1
    assert len([line for line in first.splitlines() if line.strip() and not line.startswith("#")]) <= 20
