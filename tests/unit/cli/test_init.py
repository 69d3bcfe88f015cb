"""`acker init`: its project passes its own tests, its files agree with those of this repository, and it is in order."""

import importlib
import inspect
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from acker_cli.app import app
from acker_cli.commands.init import FILES
from spout_sdk import load_topology
from tests.pages import ROOT
from tests.unit.cli.running import call_acker, one_line


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project with another name than that of the packaged files; its modules can be imported."""
    made = call_acker("init", "cafe", cwd=tmp_path)
    assert (made.returncode, made.stderr) == (0, "")
    folder = tmp_path / "cafe"
    written = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert written == {file.replace("shop", "cafe") for file in FILES}
    assert all(f"wrote cafe/{file}" in made.stdout for file in written)
    assert "shop" not in "".join((folder / file).read_text() for file in written)
    monkeypatch.syspath_prepend(folder)
    yield folder
    for name in ("cafe", "test_cafe"):
        sys.modules.pop(name, None)


def test_its_tests_pass_and_its_topology_is_loaded(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("test_cafe")
    tests = [each for name, each in vars(module).items() if name.startswith("test_")]
    assert len(tests) == 3
    for test in tests:
        with monkeypatch.context() as patched:
            test(**({"monkeypatch": patched} if "monkeypatch" in inspect.signature(test).parameters else {}))
    topology = load_topology("cafe:cafe")
    assert topology.name == "cafe"
    assert topology.sources == {"orders": ("orders",)}
    about = tomllib.loads((project / "pyproject.toml").read_text())
    assert (about["project"]["name"], about["tool"]["setuptools"]["py-modules"]) == ("cafe", ["cafe"])


def test_its_containers_are_those_of_the_cluster_with_one_broker(project: Path) -> None:
    services = yaml.safe_load((project / "compose.yml").read_text())["services"]
    cluster = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    kafka, broker = services["kafka"], cluster["kafka-1"]
    assert kafka["image"] == broker["image"]
    copies = [name for name in broker["environment"] if name.endswith(("REPLICATION_FACTOR", "MIN_ISR", "REPLICAS"))]
    assert len(copies) == 7
    assert all(kafka["environment"][name] == 1 for name in copies)
    for name in ("topics", "acker", "topology"):
        assert services[name]["image"] == cluster["topics"]["image"]
        assert_understood(services[name]["command"])


def assert_understood(arguments: list[str]) -> None:
    """Fails if `acker` does not take a command line, such as for an option that is not there."""
    command: Any = typer.main.get_command(app)
    context = command.make_context("acker", [*arguments])
    while hasattr(command, "commands"):
        name, command, arguments = command.resolve_command(context, [*arguments])
        context = command.make_context(name, [*arguments], parent=context)


def test_its_next_commands_and_those_of_its_guide_are_understood(tmp_path: Path) -> None:
    made = call_acker("init", "shop", cwd=tmp_path)
    guide = (tmp_path / "shop" / "AGENTS.md").read_text()
    assert len(guide.splitlines()) <= 40
    run = "acker run shop:shop --local --reload --feed orders=orders.jsonl"
    assert made.stdout.endswith(f"\n  cd shop && pip install -e '.[dev]'\n  pytest\n  {run}\n")
    assert f"`{run}`" in guide
    assert_understood(run.split()[1:])


def test_nothing_is_overwritten_and_a_name_is_that_of_a_new_module(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    for name, problem in {
        "shop": "shop is there already, and is not overwritten",
        "My-shop": "write lower case letters, digits and _",
        "json": "is a name of Python, of an installed package",
        "numpy": "of an installed package",
        "class": "is a name of Python",
        "ship": "or of a step",
    }.items():
        assert problem in one_line(call_acker("init", name, cwd=tmp_path))
    assert [*tmp_path.rglob("*")] == [tmp_path / "shop"]
