"""References of the documentation to tests and code are right; `mkdocs build --strict` checks its other links."""

import ast
import re
from functools import cache
from pathlib import Path

from kafka_clients.client_settings import SESSION_MS
from spout_sdk.kafka.kafka_settings import TRANSACTION_MS
from spout_sdk.spouts.spout_task import LOST_MARGIN_TIMEOUTS
from tests.pages import ROOT
from tuple_tree.components import DEFAULT_TIMEOUT_MS
from tuple_tree.manifest import TREE_AGE_TIMEOUTS

DIES = (ROOT / "docs" / "what-if-it-dies.md").read_text()
LINK = re.compile(r"\[test\]\(\.\./tests/[\w/]+\.py#[Tt]est\w+\)")

PACKAGES = "tuple_tree|kafka_clients|acker_worker|spout_sdk|spark_jobs|local_kafka|inspection|acker_cli|schemas"
MODULE = re.compile(rf"`((?:{PACKAGES})/[\w/]+\.(?:py|avsc))`")


@cache
def defined(path: Path) -> set[str]:
    """The names of the tests, methods and state machines that a module defines."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found.add(node.targets[0].id)
    return found


def test_every_test_and_module_that_a_page_names_exists() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "schemas").rglob("*.md"), *(ROOT / "docs").rglob("*.md")]
    wrong = []
    for page in pages:
        text = page.read_text()
        for path, anchor in re.findall(r"\btests/([\w/.-]*[\w/])(?:#(\w+))?", text):
            file = ROOT / "tests" / path
            if not file.exists() or (anchor and anchor not in defined(file)):
                wrong.append(f"{page.name}: tests/{path}#{anchor}")
        if page.name != "CHANGELOG.md":
            wrong += [f"{page.name}: {path}" for path in MODULE.findall(text) if not (ROOT / path).exists()]
    assert not wrong


def test_each_row_of_what_dies_links_tests() -> None:
    tables = [line.strip("| ").split(" | ") for line in DIES.splitlines() if line.startswith("| ")]
    rows = [row for row in tables if row[-1] != "tests"]
    assert len(rows) >= 40
    assert not [row for row in rows if len(row) != 3 or not LINK.search(row[2])]


def test_the_times_of_what_dies_are_those_of_the_code() -> None:
    timeout = DEFAULT_TIMEOUT_MS // 1_000
    for phrase in (
        f"{SESSION_MS // 1_000} seconds (`session.timeout.ms`)",
        f"after {timeout} seconds without progress",
        f"after {timeout * (TREE_AGE_TIMEOUTS + LOST_MARGIN_TIMEOUTS)} seconds without an outcome",
        f"times out after {TRANSACTION_MS // 1_000} s",
    ):
        assert phrase in " ".join(DIES.split()), phrase
