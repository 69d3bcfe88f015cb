"""The Python of `docs/testing.md`, and the tests in the README, are run as they stand there."""

import sys
from types import ModuleType
from typing import Any

import pytest

from tests.pages import blocks, names_of


def named_tests(names: dict[str, Any]) -> list[str]:
    return [name for name in names if name.startswith("test_")]


PAGE = names_of("docs/testing.md")


@pytest.mark.parametrize("name", named_tests(PAGE))
def test_the_page(name: str) -> None:
    PAGE[name]()


def test_the_readme(monkeypatch: pytest.MonkeyPatch) -> None:
    (first,) = (block for block in blocks("README.md") if block.startswith("# first.py"))
    (tests,) = (block for block in blocks("README.md") if block.startswith("# test_first.py"))
    module = ModuleType("first")
    exec(first, module.__dict__)
    monkeypatch.setitem(sys.modules, "first", module)
    names: dict[str, Any] = {"__name__": "test_first"}
    exec(tests, names)
    assert len(named_tests(names)) == 2
    for name in named_tests(names):
        names[name]()
