"""A plugin of pytest that applies a mutant before tests are collected."""

import os
from typing import Any

import pytest
from hypothesis import settings

from tests.mutants.catalogue import MUTANTS
from tests.mutants.patches import Patches, exit_if_mutant_raised


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--mutant", choices=[*MUTANTS], help="the deliberate fault to be applied")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    # One seed, or the examples of a plain run, may miss the mutant; the first that finds it ends the test.
    os.environ["ACKER_TEST_SEEDS"] = "5"
    settings.load_profile("exhaustive")
    name = config.getoption("--mutant")
    if name is None:
        raise pytest.UsageError("name a mutant: --mutant NAME")
    MUTANTS[name].apply(Patches(pytest.MonkeyPatch()))


def pytest_exception_interact(call: pytest.CallInfo[Any]) -> None:
    if call.excinfo is not None:
        exit_if_mutant_raised(call.excinfo.value)
