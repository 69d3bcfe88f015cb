"""The reference of JSON objects lists the members and paths of the code."""

import re
import sys

import pytest

from inspection.view import ComponentView, Snapshot
from tests.pages import ROOT
from tests.unit.dashboard.figures import DEAD_LETTERS, FAILURES

PAGE = (ROOT / "docs" / "reference" / "json.md").read_text()


def test_members_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "_hooks"))
    page = __import__("fields").filled_in(PAGE)
    del sys.modules["fields"]
    rows = dict(re.findall(r"^\| `(\w+)` \|.* \| (.*) \|$", page, re.MULTILINE))
    assert Snapshot.__annotations__.keys() | ComponentView.__annotations__.keys() <= rows.keys()


def test_the_paths_of_the_dashboard_are_listed() -> None:
    pages = (ROOT / "inspection" / "dashboard" / "pages.py").read_text()
    assert set(re.findall(r'Route\(\s*"(/api/[a-z-]+)"', pages)) == set(re.findall(r"^\| `(/api/[\w-]+)`", PAGE, re.M))
    for path, example in (("/api/failures", FAILURES[0]), ("/api/dead-letters", DEAD_LETTERS[0])):
        (row,) = re.findall(rf"^\| `{path}` .*$", PAGE, re.MULTILINE)
        assert set(example) <= set(re.findall(r"`([a-z_]+)`", row))
