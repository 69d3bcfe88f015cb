"""What runs on each change: nothing is left out because of what a machine has, and what is missing is said."""

import os
import re
import subprocess
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_DOCKER = _ROOT / ".ci" / "docker"
_KILLS = "tests/spark/test_bolt_kills.py"


def script(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)
    return path


def run(directory: Path, up: Path | str, *command: str) -> subprocess.CompletedProcess[str]:
    """Runs `.ci/docker` where there are no programs but those in a directory, and what a shell needs."""
    for needed in ("bash", "dirname", "env", "sh"):
        (directory / needed).symlink_to(Path("/usr/bin") / needed)
    return subprocess.run(
        [str(directory / "bash"), str(_DOCKER), *command],
        env={"PATH": str(directory), "DOCKER_UP": str(up)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_all_checks_run_and_those_of_kafka_on_both() -> None:
    lines = (_ROOT / ".ci" / "run").read_text().splitlines()
    commands = [
        re.sub(r" \|\| .*| 3<&-$", "", line).strip() for line in lines if "make " in line and not line.startswith("#")
    ]
    assert commands == [
        ".ci/docker make test-container",
        ".ci/docker make test-cluster",
        'ACKER_TEST_KAFKA=embedded make test PARTS="tests/spark --ignore=$kills"',
        "make setup",
        "make bench-guard",
        "make lint",
        "make types",
        'ACKER_TEST_KAFKA=embedded make test PARTS="tests/unit tests/kafka $kills"',
    ]


def test_the_two_halves_are_all_that_make_test_runs() -> None:
    (parts,) = re.findall(r"^PARTS \?= (.+)$", (_ROOT / "Makefile").read_text(), re.MULTILINE)
    halves = re.findall(r'make test PARTS="?([a-z/ ]+)"?', (_ROOT / ".ci" / "run").read_text())
    assert sorted(" ".join(halves).split()) == sorted(parts.split())


def test_what_fails_beside_the_others_fails_the_whole(tmp_path: Path) -> None:
    """With a `make` that fails for one target."""
    checkout = tmp_path / "checkout" / ".ci"
    checkout.mkdir(parents=True)
    (checkout / "run").write_text((_ROOT / ".ci" / "run").read_text())
    script(checkout / "docker", 'exec "$@"')
    script(checkout / "chromium")
    script(
        tmp_path / "make",
        f'echo "$* on $ACKER_TEST_KAFKA" >> {tmp_path}/made',
        "echo 1 passed",
        'case "$*" in $BROKEN) exit 1 ;; esac',
    )
    logs = tmp_path / "logs"
    logs.mkdir()
    broken_ones = (
        "setup",
        "bench-guard",
        "lint",
        "types",
        "test-container",
        "test-cluster",
        "test *ignore*",
        "test *unit*",
    )
    for broken, fails in (("none", False), *((each, True) for each in broken_ones)):
        (tmp_path / "made").unlink(missing_ok=True)
        done = subprocess.run(
            ["bash", str(checkout / "run")],
            env={"PATH": f"{tmp_path}:/usr/bin:/bin", "BROKEN": broken, "TMPDIR": str(logs)},
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert (done.returncode != 0) == fails, broken
        assert not [*logs.iterdir()], broken
        made = (tmp_path / "made").read_text().splitlines()
        assert made[0] == "setup on "
        assert made[1:2] == ["bench-guard on "] * (broken != "setup"), "nothing runs beside it"
        if broken.startswith(("none", "test")):
            assert {
                "test-container on ",
                "test-cluster on ",
                f"test PARTS=tests/spark --ignore={_KILLS} on embedded",
                f"test PARTS=tests/unit tests/kafka {_KILLS} on embedded",
            } < {*made}, broken
    assert (_ROOT / _KILLS).is_file(), "what one half leaves out the other one runs"


def test_what_runs_beside_the_others_ends_with_them(tmp_path: Path) -> None:
    """With lint that fails while containers run."""
    checkout = tmp_path / "checkout" / ".ci"
    checkout.mkdir(parents=True)
    (checkout / "run").write_text((_ROOT / ".ci" / "run").read_text())
    script(checkout / "docker", 'exec "$@"')
    started, ended = tmp_path / "started", tmp_path / "ended"
    os.mkfifo(started)
    script(
        tmp_path / "make",
        'case "$1" in',
        f"test-container) trap 'echo ended > {ended}; kill $!; exit 130' INT; sleep 600 & echo > {started}; wait ;;",
        f"lint) read -r line < {started}; exit 1 ;;",
        "esac",
    )
    done = subprocess.run(
        ["bash", str(checkout / "run")],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode != 0
    assert ended.read_text() == "ended\n"


def test_a_script_that_cannot_be_run_is_named(tmp_path: Path) -> None:
    done = run(tmp_path, tmp_path / "none", "env")
    assert done.returncode == 1
    assert f"DOCKER_UP={tmp_path / 'none'} is no script that can be run" in done.stderr


def test_a_script_that_starts_no_engine_is_not_enough(tmp_path: Path) -> None:
    script(tmp_path / "docker", "exit 1")
    done = run(tmp_path, script(tmp_path / "up"), "env")
    assert done.returncode == 1
    assert "no Docker engine with compose is running here: start one, or set DOCKER_UP" in done.stderr


@pytest.mark.parametrize("code", [0, 3])
def test_the_command_runs_beside_the_engine_that_was_started(tmp_path: Path, code: int) -> None:
    script(tmp_path / "docker", f'[ -e "{tmp_path}/started" ]')
    up = script(tmp_path / "up", f': > "{tmp_path}/started"')
    done = run(tmp_path, up, "sh", "-c", f"env; exit {code}")
    assert done.returncode == code, done.stderr
    assert "BUILD_NETWORK=host" in done.stdout
    assert "TESTCONTAINERS_RYUK_DISABLED=true" in done.stdout


def chromium(directory: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs `.ci/chromium` where there are no programs but those in a directory, and what a shell needs."""
    for needed in ("bash", "env", "id", "sh"):
        (directory / needed).symlink_to(Path("/usr/bin") / needed)
    return subprocess.run(
        [str(directory / "bash"), str(_ROOT / ".ci" / "chromium")],
        env={"PATH": str(directory), **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_chromium_that_is_there_is_taken(tmp_path: Path) -> None:
    script(tmp_path / "chromium", "echo there")
    script(tmp_path / "apt-get", "exit 1")
    assert chromium(tmp_path).stdout == "there\n"


def test_a_chromium_that_is_missing_is_installed(tmp_path: Path) -> None:
    script(
        tmp_path / "apt-get",
        f'echo "$@" >> {tmp_path}/asked',
        f'[ "$1" = update ] || {{ printf "#!/bin/sh\\necho installed\\n" > {tmp_path}/chromium; '
        f"/bin/chmod +x {tmp_path}/chromium; }}",
    )
    script(tmp_path / "sudo", 'exec "$@"')
    done = chromium(tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("installed\n")
    assert (tmp_path / "asked").read_text().splitlines()[0].startswith("update")


def test_without_a_way_to_a_chromium_it_is_said(tmp_path: Path) -> None:
    done = chromium(tmp_path)
    assert done.returncode == 1
    assert "ACKER_TEST_CHROMIUM" in done.stderr


def test_a_chromium_that_is_named_must_be_there(tmp_path: Path) -> None:
    done = chromium(tmp_path, ACKER_TEST_CHROMIUM="/nowhere/chrome")
    assert done.returncode == 1
    assert "/nowhere/chrome is no program" in done.stderr
