"""The deliberate faults: each can be applied, and its test exists."""

import os
from typing import Any

import pytest

from tests.mutants.catalogue import MUTANTS
from tests.mutants.patches import MISTAKEN, Mutant, Patches
from tests.pages import ROOT
from tests.unit.test_doc_links import defined
from tuple_tree.offsets import OffsetManager


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS)
def test_a_mutant_replaces_what_exists(mutant: Mutant) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        mutant.apply(Patches(monkeypatch))


def test_the_test_of_each_mutant_exists() -> None:
    known = set().union(*(defined(path) for path in (ROOT / "tests").rglob("*.py")))  # some inherit from the contracts
    for mutant in MUTANTS.values():
        path, *names = mutant.test.partition("[")[0].split("::")
        assert (ROOT / path).exists(), mutant
        assert set(names) <= known, mutant


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
