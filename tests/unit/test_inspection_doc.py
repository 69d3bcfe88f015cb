"""The guide to looking into a topology names what the dashboard has, and nothing that it has not."""

import re
from pathlib import Path

from acker_cli.settings import DashboardSection
from inspection.dashboard.access import Access
from inspection.dashboard.pages import Pages
from inspection.dashboard.recent import KEPT, NOTICE_RECORDS
from inspection.dashboard.server import SHORTEST_TOKEN
from inspection.dashboard.tree_searches import AT_ONCE, MOST_TUPLES, SEARCH_S
from tests.unit.dashboard.figures import DEAD_LETTERS, FAILURES, Figures

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "inspection.md").read_text()
DASHBOARD = GUIDE[GUIDE.index("## Dashboard") :]
SOURCE = (ROOT / "inspection" / "dashboard" / "pages.py").read_text()


def row(first: str) -> str:
    (found,) = re.findall(rf"^\| {re.escape(first)}.*$", DASHBOARD, re.MULTILINE)
    return str(found)


def test_every_path_is_explained() -> None:
    assert Pages(Figures()).guarded(Access()) is not None
    served = set(re.findall(r'Route\(\s*"(/api/[a-z-]+)"', SOURCE))
    assert len(served) == 7
    assert set(re.findall(r"^\| `(/api/[a-z-]+)`", DASHBOARD, re.MULTILINE)) == served


def test_every_member_is_explained() -> None:
    for path, example in (("/api/failures", FAILURES[0]), ("/api/dead-letters", DEAD_LETTERS[0])):
        assert set(example) <= set(re.findall(r"`([a-z_]+)`", row(f"`{path}`")))


def test_every_setting_is_explained() -> None:
    for name, field in DashboardSection.model_fields.items():
        assert f".{name}`" in DASHBOARD
        if isinstance(field.default, int):
            assert str(field.default) in row("`dashboard.host`")


def test_limits_are_those_of_the_code() -> None:
    assert f"the latest {KEPT} that" in DASHBOARD
    assert f"the latest {KEPT}: where" in DASHBOARD
    assert f"the last {NOTICE_RECORDS:,} records" in DASHBOARD
    assert AT_ONCE == 2
    assert f"two at once and {SEARCH_S:g} s each" in DASHBOARD
    assert f"more than {MOST_TUPLES:,} tuples" in DASHBOARD
    assert f"{SHORTEST_TOKEN} characters or more" in DASHBOARD


def test_its_pictures_are_there() -> None:
    pictures = re.findall(r"\(images/([a-z-]+\.png)\)", DASHBOARD)
    assert len(pictures) == 4
    for name in pictures:
        assert (ROOT / "docs" / "images" / name).read_bytes().startswith(b"\x89PNG")
