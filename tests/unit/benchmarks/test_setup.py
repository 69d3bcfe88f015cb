"""The frameworks that are compared: pinned versions, and one line where they are not set up."""

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


def test_all_of_them_are_fetched_by_one_command_in_exact_versions() -> None:
    assert [peer.name for peer in fetching.PEERS] == ["plots", "quixstreams", "bytewax", "faust", "storm"]
    for file in _SETUP.glob("requirements-*.txt"):
        lines = file.read_text().splitlines()
        assert lines
        assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in lines), file
    versions = re.findall(r"<(?:storm\.)?version>([^<]+)<", (storm.SOURCES / "pom.xml").read_text())
    assert len(versions) >= 4
    assert all(re.fullmatch(r"[\d.]+|\$\{storm\.version\}", each) for each in versions)


def test_an_environment_that_is_missing_or_has_other_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environments, "DIRECTORY", tmp_path)
    monkeypatch.setattr(storm, "_BUILT", tmp_path)
    with pytest.raises(NotSetUpError, match=r"bytewax is not there.*run make bench-setup"):
        python_peers.FRAMEWORKS["bytewax"].python()
    with pytest.raises(NotSetUpError, match="run make bench-setup"):
        storm.driver(64)
    wanted = (_SETUP / "requirements-bytewax.txt").read_text()
    stamp = tmp_path / "bytewax" / "fetched.json"
    stamp.parent.mkdir()
    stamp.write_text(json.dumps({"requirements": wanted, "versions": {"bytewax": "1", "confluent-kafka": "2"}}))
    environment = Environment("bytewax", "bytewax")
    assert environment.python() == tmp_path / "bytewax" / "bin" / "python"
    assert python_peers.versions("bytewax") == {"bytewax": "1", "confluent-kafka of bytewax": "2"}
    # What is there is not fetched again.
    environment.fetch()
    stamp.write_text(json.dumps({"requirements": wanted.replace("==", "==0."), "versions": {}}))
    with pytest.raises(NotSetUpError):
        environment.python()


def test_only_whole_runs_replace_the_results_that_are_kept() -> None:
    for arguments, whole, kept in (
        ([], True, DIRECTORY),
        ([], False, None),
        (["--quick"], True, None),
        (["--quick", "--results", "there"], True, Path("there")),
        (["--results", "there"], False, Path("there")),
    ):
        given = command.parser("What it does.", "a little").parse_args(arguments)
        assert command.directory(given, whole=whole) == kept

    def main() -> None:
        raise BenchmarkError("nothing arrived")

    with pytest.raises(SystemExit, match=r"^nothing arrived$"):
        command.run(main)
