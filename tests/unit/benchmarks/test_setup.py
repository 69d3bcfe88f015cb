"""Peers: pinned, and missed before anything is measured."""

import argparse
import json
import re
from pathlib import Path

import pytest

from benchmarks import command
from benchmarks.errors import BenchmarkError, NotSetUpError
from benchmarks.results import DIRECTORY
from benchmarks.setup import __main__ as fetching
from benchmarks.setup import environments, python_peers, storm
from benchmarks.setup.environments import Environment

_SETUP = Path(environments.__file__).parent


def test_all_peers_are_fetched_by_one_command() -> None:
    assert [peer.name for peer in fetching.PEERS] == ["plots", "quixstreams", "bytewax", "faust", "storm"]


@pytest.mark.parametrize("file", sorted(_SETUP.glob("requirements-*.txt")), ids=lambda file: file.stem)
def test_every_version_is_exact(file: Path) -> None:
    lines = file.read_text().splitlines()
    assert lines
    assert [line for line in lines if not re.fullmatch(r"[\w.-]+==[\w.]+", line)] == []


def test_the_versions_of_storm_and_of_what_builds_it_are_exact() -> None:
    versions = re.findall(r"<(?:storm\.)?version>([^<]+)<", (storm.SOURCES / "pom.xml").read_text())
    assert len(versions) >= 4
    assert [each for each in versions if not re.fullmatch(r"[\d.]+|\$\{storm\.version\}", each)] == []


def test_who_is_not_there_says_what_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environments, "DIRECTORY", tmp_path)
    monkeypatch.setattr(storm, "_BUILT", tmp_path)
    with pytest.raises(NotSetUpError, match=r"bytewax is not there.*run make bench-setup"):
        python_peers.FRAMEWORKS["bytewax"].python()
    with pytest.raises(NotSetUpError, match="run make bench-setup"):
        python_peers.versions("faust")
    with pytest.raises(NotSetUpError, match="run make bench-setup"):
        storm.driver(64)


def test_an_environment_of_other_versions_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environments, "DIRECTORY", tmp_path)
    wanted = (_SETUP / "requirements-bytewax.txt").read_text()
    stamp = tmp_path / "bytewax" / "fetched.json"
    stamp.parent.mkdir()
    stamp.write_text(json.dumps({"requirements": wanted, "versions": {"bytewax": "1", "confluent-kafka": "2"}}))
    environment = Environment("bytewax", "bytewax")
    assert environment.python() == tmp_path / "bytewax" / "bin" / "python"
    assert python_peers.versions("bytewax") == {"bytewax": "1", "confluent-kafka of bytewax": "2"}
    # Nothing is fetched that is there.
    environment.fetch()
    stamp.write_text(json.dumps({"requirements": wanted.replace("==", "==0."), "versions": {}}))
    with pytest.raises(NotSetUpError):
        environment.python()


@pytest.mark.parametrize(
    ("arguments", "whole", "kept"),
    [
        ([], True, DIRECTORY),
        ([], False, None),
        (["--quick"], True, None),
        (["--quick", "--results", "there"], True, Path("there")),
        (["--results", "there"], False, Path("there")),
    ],
)
def test_what_is_kept(arguments: list[str], whole: bool, kept: Path | None) -> None:
    given = command.parser("What it does.", "a little").parse_args(arguments)
    assert isinstance(given, argparse.Namespace)
    assert command.directory(given, whole=whole) == kept


def test_what_cannot_be_measured_is_told_in_a_line() -> None:
    def main() -> None:
        raise BenchmarkError("nothing arrived")

    with pytest.raises(SystemExit, match=r"^nothing arrived$"):
        command.run(main)
