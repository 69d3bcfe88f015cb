"""The wheel carries the wire contract inside `tuple_tree`, and no top-level package named `schemas`."""

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

_ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("wheel")
    built = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", str(_ROOT), "--no-deps", "--quiet", "--wheel-dir", str(target)],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert built.returncode == 0, built.stderr
    (path,) = target.glob("kafka_acker-*.whl")
    return path


def test_the_wheel_carries_the_contract(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        for schema in ("ack_batch.avsc", "notice_batch.avsc", "README.md"):
            assert archive.read(f"tuple_tree/_schemas/{schema}") == (_ROOT / "schemas" / schema).read_bytes()


def test_no_top_level_package_of_the_wheel_is_called_schemas(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        top = {name.split("/")[0] for name in archive.namelist()}
    assert {name for name in top if not name.endswith(".dist-info")} == {
        "tuple_tree",
        "kafka_clients",
        "acker_worker",
        "spout_sdk",
        "spark_jobs",
        "local_kafka",
        "inspection",
        "acker_cli",
    }


def test_the_package_loads_the_schemas_it_ships(wheel: Path, tmp_path: Path) -> None:
    with ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    path = subprocess.run(
        [sys.executable, "-c", "from tuple_tree.messages import schema_directory; print(schema_directory())"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout.strip()
    assert Path(path) == tmp_path / "tuple_tree" / "_schemas"
