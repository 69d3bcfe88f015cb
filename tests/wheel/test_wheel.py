"""The wheel and the sdist of a release: their content, their page in a package index, and a new user's first steps."""

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from zipfile import ZipFile

import pytest
from readme_renderer import markdown

from acker_cli.commands.init import FILES
from spark_jobs.packages import PACKAGES_VERSIONS
from tests.pages import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
REPOSITORY = "https://forge.example/acker/kafka-acker"
PACKAGES = {"tuple_tree", "kafka_clients", "acker_worker", "spout_sdk", "spark_jobs", "local_kafka"}
PACKAGES |= {"inspection", "acker_cli"}


def run(*command: str | Path, cwd: Path = ROOT, **environment: str) -> str:
    ran = subprocess.run(
        [*map(str, command)],
        capture_output=True,
        text=True,
        timeout=240,
        cwd=cwd,
        env=os.environ | environment,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both, as the workflow of a release builds them; the wheel is made of the sdist."""
    target = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", target, ROOT, REPOSITORY_URL=REPOSITORY)
    return target


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    return dist / f"kafka_acker-{PROJECT['version']}-py3-none-any.whl"


@pytest.fixture(scope="module")
def page(wheel: Path) -> Message:
    with ZipFile(wheel) as archive:
        (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return message_from_bytes(archive.read(metadata))


def test_a_package_index_accepts_both(dist: Path) -> None:
    sdist = dist / f"kafka_acker-{PROJECT['version']}.tar.gz"
    run(sys.executable, "-m", "twine", "check", "--strict", *dist.iterdir())
    with tarfile.open(sdist) as archive:
        content = {name.partition("/")[2] for name in archive.getnames()}
    assert {"README.md", "CHANGELOG.md", "LICENSE", "hatch_build.py", "tests/wheel/test_wheel.py"} <= content


def test_the_wheel_has_the_packages_with_their_types_and_the_contract(wheel: Path) -> None:
    """Of the wire contract in `tuple_tree`: a top-level package named `schemas` would collide with others."""
    with ZipFile(wheel) as archive:
        names = archive.namelist()
        assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == PACKAGES
        assert {f"{package}/py.typed" for package in PACKAGES} <= set(names)
        for schema in ("ack_batch.avsc", "notice_batch.avsc", "README.md"):
            assert archive.read(f"tuple_tree/_schemas/{schema}") == (ROOT / "schemas" / schema).read_bytes()
        assert {f"acker_cli/project/{file}" for file in FILES} <= set(names)


def test_all_links_and_pictures_of_the_page_are_absolute(page: Message) -> None:
    text = page.get_payload(decode=True)
    assert isinstance(text, bytes)
    rendered = markdown.render(text.decode())
    assert rendered is not None
    at_tag = f"v{PROJECT['version']}"
    links = re.findall(r'<a href="([^#"][^"]*)"', rendered)
    assert all(link.startswith("https://") for link in links)
    assert f"{REPOSITORY}/blob/{at_tag}/docs/tutorial.md" in links
    pictures = re.findall(r'<img [^>]*src="([^"]+)"', rendered)
    assert len(pictures) == (ROOT / "README.md").read_text().count("![") > 0
    assert all((ROOT / picture.removeprefix(f"{REPOSITORY}/raw/{at_tag}/")).is_file() for picture in pictures)


def test_the_page_names_the_project_its_versions_and_extras(page: Message) -> None:
    links = dict(link.split(", ") for link in page.get_all("Project-URL", []))
    assert links["Source"] == REPOSITORY
    assert links["Documentation"] == f"{REPOSITORY}/blob/v{PROJECT['version']}/docs/index.md"
    assert {"local", "spark", "otel", "rocksdb"} <= set(page.get_all("Provides-Extra", []))
    changes, policy = (ROOT / "CHANGELOG.md").read_text(), (ROOT / "docs" / "upgrading.md").read_text()
    assert re.search(rf"^## \[{re.escape(PROJECT['version'])}\] - \d{{4}}-\d\d-\d\d$", changes, re.MULTILINE)
    pythons = re.findall(r"Python :: (3\.\d+)$", "\n".join(page.get_all("Classifier", [])), re.MULTILINE)
    for name, supported in (("Python", pythons), ("PySpark", PACKAGES_VERSIONS)):
        assert re.search(rf"^\| {name} \| {', '.join(supported)}[ ;]", policy, re.MULTILINE)


def test_a_new_user_installs_the_wheel_and_runs_the_first_example(wheel: Path, tmp_path: Path) -> None:
    """In an environment of its own with an empty home; what the wheel requires is this environment's."""
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    venv.create(tmp_path / "env", symlinks=True)
    python = tmp_path / "env" / "bin" / "python"
    (site,) = (tmp_path / "env" / "lib").glob("python*/site-packages")
    run(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--quiet", wheel)
    (site / "required.pth").write_text(str(Path(pytest.__file__).parents[1]))

    def run_here(*command: str | Path) -> str:
        return run(*command, cwd=work, HOME=str(home))

    version = run_here(tmp_path / "env" / "bin" / "acker", "--version")
    assert version.split() == ["acker", PROJECT["version"]]
    named = run_here(python, "-c", "from tuple_tree.pages import page; print(page('upgrading.md'))")
    assert named.strip() == f"{REPOSITORY}/blob/v{PROJECT['version']}/docs/upgrading.md"
    first = (ROOT / "README.md").read_text().split("To see it run")[0]
    for name, code in re.findall(r"^```python\n# (\w+\.py)\n(.*?)^```", first, re.MULTILINE | re.DOTALL):
        (work / name).write_text(code)
    used = run_here(python, "-c", "import spout_sdk; print(spout_sdk.__file__)")
    assert used.startswith(str(site))
    assert "2 passed" in run_here(python, "-m", "pytest", "-p", "no:cacheprovider", work / "test_shop.py")
