"""The site of the documentation: it builds without a broken link, shows what the code says, and fetches nothing."""

import ast
import json
import os
import re
import subprocess
import sys
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import local_kafka
import spark_jobs
import spout_sdk
import spout_sdk.testing
from spout_sdk.kafka_settings import SESSION_MS, TRANSACTION_MS
from spout_sdk.spout_task import LOST_MARGIN_TIMEOUTS
from tests.pages import ROOT
from tuple_tree.manifest import DEFAULT_TIMEOUT_MS, TREE_AGE_TIMEOUTS, Manifest
from tuple_tree.messages import FailReason

DIES = (ROOT / "docs" / "what-if-it-dies.md").read_text()
FETCHED = {
    ("audio", "src"),
    ("embed", "src"),
    ("iframe", "src"),
    ("img", "src"),
    ("img", "srcset"),
    ("link", "href"),
    ("object", "data"),
    ("script", "src"),
    ("source", "src"),
    ("use", "href"),
    ("video", "src"),
}
"""What a browser fetches by itself, as tag and attribute."""


class Read(HTMLParser):
    """What a page fetches, links, and can be linked at."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.fetched: set[str] = set()
        self.ids: set[str] = set()
        self.feed(page.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if (tag, name) in FETCHED and value:
                self.fetched.add(value)
            elif name == "id" and value:
                self.ids.add(value)


def build(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", *arguments],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("site")
    done = build("--site-dir", str(directory))
    assert done.returncode == 0, done.stderr
    return directory


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    pages = [*site.rglob("*.html")]
    assert len(pages) > 50
    for page in pages:
        for fetched in Read(page).fetched:
            address = urlsplit(fetched)
            assert not address.netloc, f"{page.name} fetches {fetched}"
            if not address.scheme:
                here = site if address.path.startswith("/") else page.parent
                assert (here / unquote(address.path).lstrip("/")).exists(), f"{page.name} fetches {fetched}"
    for style in site.rglob("*.css"):
        elsewhere = re.findall(r"(?:url\(|@import)\s*[\"']?((?:https?:)?//[^\"')]*)", style.read_text())
        assert not elsewhere, style.name


def test_the_reference_has_every_public_name(site: Path) -> None:
    pages = {"sdk": spout_sdk, "testing": spout_sdk.testing, "spark": spark_jobs, "local-kafka": local_kafka}
    for page, package in pages.items():
        ids = Read(site / "reference" / f"{page}.html").ids
        assert set(package.__all__) <= ids, page
    assert {"Spout.next_tuple", "OutputCollector.ack", "Tuple.roots"} <= Read(site / "reference" / "sdk.html").ids


def test_the_reference_says_how_things_are_called(site: Path) -> None:
    text = unescape(re.sub(r"<[^>]+>", "", (site / "reference" / "sdk.html").read_text()))
    for line in (
        "    ack_partitions: int = 8,\n",
        "Failure(reason: FailReason, message: str = '')",
        "def ack(tuple_: Tuple) -> None",
        "message_timeout: seconds without progress after which a tree fails.",
    ):
        assert line in text, line
    assert "Called by the SDK" not in text


def test_the_reference_has_every_command(site: Path) -> None:
    page = site / "reference" / "acker.html"
    ids, text = Read(page).ids, page.read_text()
    assert {"acker-run", "acker-worker", "acker-topologies-delete", "acker-spark-submit", "acker-config-show"} <= ids
    assert "<code>--bootstrap-servers HOST:PORT,…</code>" in text
    assert "[dim]" not in text


def test_the_reference_of_the_wire_is_that_of_the_schemas(site: Path) -> None:
    text = (site / "reference" / "wire.html").read_text()
    for schema in (ROOT / "schemas").glob("*.avsc"):
        fields = json.loads(schema.read_text())["fields"]
        assert all(f"<code>{field['name']}</code>" in text for field in fields), schema.name
    assert all(f"<code>{member}</code>" in text for member in Manifest.model_fields)
    assert all(f"<code>{reason.word}</code>" in text for reason in FailReason)
    assert "<code>{topology}.tuples.{bolt}</code>" in text


def test_every_decision_is_in_the_navigation(site: Path) -> None:
    page = (site / "architecture.html").read_text()
    decisions = [*(ROOT / "docs" / "adr").glob("*.md")]
    assert decisions
    assert all(f'href="adr/{decision.stem}.html"' in page for decision in decisions)


def test_search_finds_pages_and_not_the_code_that_they_link(site: Path) -> None:
    found = {entry["location"] for entry in json.loads((site / "search" / "search_index.json").read_text())["docs"]}
    assert "tutorial.html" in found
    assert not any(location.startswith("source/tests/") for location in found)


BROKEN = {
    "[a page](nowhere.md)": "'nowhere.md', but the target is not found",
    "[a file](../examples/nowhere.py)": "'../examples/nowhere.py', but the target is not found",
    "[a heading](#nowhere)": "'#nowhere', but there is no such anchor",
    "[a test](../tests/kafka/test_worker.py#test_nowhere)": "does not contain an anchor '#test_nowhere'",
    "[a heading of a file](../schemas/README.md#nowhere)": "does not contain an anchor '#nowhere'",
}


def built_from(directory: Path, nav: list[str], pages: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Builds a site of these pages, otherwise like ours."""
    for name, text in pages.items():
        page = directory / "docs" / name
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(text)
    settings = {
        "INHERIT": str(ROOT / "mkdocs.yml"),
        "docs_dir": str(directory / "docs"),
        "site_dir": str(directory / "site"),
        "hooks": [str(ROOT / "docs" / "_hooks" / "hooks.py")],
        "nav": nav,
    }
    (directory / "mkdocs.yml").write_text(json.dumps(settings))
    return build("--config-file", str(directory / "mkdocs.yml"))


def test_what_is_broken_ends_the_build(tmp_path: Path) -> None:
    whole = "[a file](../examples/orders.py) [a test](../tests/kafka/test_worker.py#log) [a page](other.md#a-part)"
    pages = {
        "index.md": "# Broken\n\n" + "\n\n".join([whole, *BROKEN]),
        "other.md": "# Other\n\n## A part\n\n`[no link](nowhere.md)`\n",
    }
    done = built_from(tmp_path, ["index.md"], pages)
    assert done.returncode == 1
    for what in (*BROKEN.values(), 'not included in the "nav" configuration'):
        assert what in done.stderr, done.stderr
    assert f"Aborted with {len(BROKEN) + 1} warnings" in done.stdout + done.stderr


def test_a_name_that_no_page_tells_of_ends_the_build(tmp_path: Path) -> None:
    page = "reference/spark.md"
    done = built_from(tmp_path, [page], {page: "# Reference\n\n<!-- members: spark_jobs bolt spout -->\n"})
    assert done.returncode == 1
    assert "reference/spark.md tells of spark_jobs: " in done.stderr
    assert "mark_failed" in done.stderr


def rows() -> list[list[str]]:
    """The rows of all tables of the page that says what follows from a death, without their headings."""
    tables = [line.strip("| ").split(" | ") for line in DIES.splitlines() if line.startswith("| ")]
    return [row for row in tables if row[-1] != "tests"]


def test_its_times_are_those_of_the_code() -> None:
    timeout = DEFAULT_TIMEOUT_MS // 1_000
    lost = timeout * (TREE_AGE_TIMEOUTS + LOST_MARGIN_TIMEOUTS)
    for said in (
        f"{SESSION_MS // 1_000} seconds (`session.timeout.ms`)",
        f"after {timeout} seconds without progress",
        f"after {lost} seconds of silence",
        f"else it times out after {TRANSACTION_MS // 1_000} s",
    ):
        assert said in " ".join(DIES.split()), said


def test_each_row_is_proven_by_tests_that_are_there() -> None:
    assert len(rows()) >= 40
    for row in rows():
        assert len(row) == 5, row
        links = re.findall(r"\[`(\w+)`\]\(\.\./(tests/[\w/]+\.py)#(\w+)\)", row[4])
        assert links, row
        for name, path, anchor in links:
            assert name == anchor
            assert name.startswith(("test_", "Test"))
            assert name in defined(ROOT / path), f"{path} has no {name}"


def defined(path: Path) -> set[str]:
    """The names of what a module defines, methods included."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found.add(node.targets[0].id)
    return found
