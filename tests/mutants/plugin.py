"""A plugin of pytest that applies a mutant before tests are collected."""

import os
from typing import Any

import pytest

from tests.mutants.catalogue import MUTANTS
from tests.mutants.patches import Patches, exit_if_mutant_raised


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--mutant", choices=[*MUTANTS], help="the deliberate fault to be applied")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    os.environ["ACKER_TEST_SEEDS"] = "5"  # one may miss the mutant
    name = config.getoption("--mutant")
    if name is None:
        raise pytest.UsageError("name a mutant: --mutant NAME")
    MUTANTS[name].apply(Patches(pytest.MonkeyPatch()))


def pytest_exception_interact(call: pytest.CallInfo[Any]) -> None:
    if call.excinfo is not None:
        exit_if_mutant_raised(call.excinfo.value)
