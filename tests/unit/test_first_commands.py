"""README's first commands set up what they need, whichever is run first."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.pages import ROOT


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / ".venv").mkdir()
    return tmp_path


def would_run(checkout: Path, target: str) -> str:
    # A make that runs these tests hands its own flags and level on.
    alone = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    return subprocess.run(
        ["make", "-n", target], cwd=checkout, env=alone, capture_output=True, text=True, check=True
    ).stdout


def test_a_demo_installs_no_tools_of_developers_and_a_test_does_so_later(checkout: Path) -> None:
    demo = would_run(checkout, "demo")
    assert "'.[local]'" in demo
    assert "'.[dev]'" not in demo
    (checkout / ".venv" / ".runnable").touch()
    assert "pip install" not in would_run(checkout, "demo")
    test = would_run(checkout, "test")
    assert "'.[dev]'" in test
    assert "-m venv" not in test


def test_tests_set_up_what_a_demo_needs(checkout: Path) -> None:
    test = would_run(checkout, "test")
    assert test.index("'.[local]'") < test.index("'.[dev]'") < test.index("bin/pytest")
    for stamp in (".runnable", ".ready"):
        (checkout / ".venv" / stamp).touch()
    assert "pip install" not in would_run(checkout, "test") + would_run(checkout, "demo")


def test_the_checks_of_a_change_run_the_tests_as_readme_does() -> None:
    first = re.findall(r"^```console\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)[0]
    assert first == "$ make demo\n$ make test\n"
    assert "step make test\n" in (ROOT / ".ci" / "run").read_text()
