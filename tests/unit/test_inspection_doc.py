"""The inspection guide names the options, paths, settings and limits of the code."""

import re

import typer
from typer.main import get_command

from acker_cli.app import app
from acker_cli.settings.sections import DashboardSection
from inspection.dashboard.recent import KEPT, NOTICE_RECORDS
from inspection.dashboard.source import AT_ONCE, MOST_TUPLES, SEARCH_SECONDS
from inspection.http_server import SHORTEST_TOKEN
from inspection.trace.ack_matching import MOST_CANDIDATES
from inspection.trace_reader import CLOCK_MS
from tests.pages import ROOT
from tests.unit.dashboard.figures import DEAD_LETTERS, FAILURES

GUIDE = (ROOT / "docs" / "inspection.md").read_text()
TRACE = GUIDE[GUIDE.index("## Trace") :]
DASHBOARD = GUIDE[GUIDE.index("## Dashboard") :]
SOURCE = (ROOT / "inspection" / "dashboard" / "pages.py").read_text()


def row(first: str) -> str:
    (found,) = re.findall(rf"^\| {re.escape(first)}.*$", DASHBOARD, re.MULTILINE)
    return str(found)


def test_the_options_of_trace_exist() -> None:
    command = get_command(app).get_command(typer.Context(get_command(app)), "trace")  # type: ignore[attr-defined]
    known = {option for parameter in command.params for option in parameter.opts}
    named = set(re.findall(r"`(?:[^`]*\s)?(--[a-z][a-z-]+)", TRACE.partition("\n## ")[0]))
    assert {"--oldest", "--last-failed", "--message", "--since", "--json", "--topology"} <= named <= known


def test_every_path_member_and_setting_is_explained() -> None:
    served = set(re.findall(r'Route\(\s*"(/api/[a-z-]+)"', SOURCE))
    assert len(served) == 10
    assert set(re.findall(r"^\| `(/api/[a-z-]+)`", DASHBOARD, re.MULTILINE)) == served
    for path, example in (("/api/failures", FAILURES[0]), ("/api/dead-letters", DEAD_LETTERS[0])):
        assert set(example) <= set(re.findall(r"`([a-z_]+)`", row(f"`{path}`")))
    for name, field in DashboardSection.model_fields.items():
        assert f".{name}`" in DASHBOARD
        if isinstance(field.default, int):
            assert str(field.default) in row("`dashboard.host`")


def test_limits_are_those_of_the_code() -> None:
    assert AT_ONCE == 2
    for phrase in (
        f"the latest {KEPT} of each reason that",
        f"the latest {KEPT}: where",
        f"the last {NOTICE_RECORDS:,} records",
        f"two at once and {SEARCH_SECONDS:g} s each",
        f"more than {MOST_TUPLES:,} tuples",
        f"{SHORTEST_TOKEN} characters or more",
        f"With up to {MOST_CANDIDATES} tuples",
        f"with {CLOCK_MS // 1000} seconds on either side",
    ):
        assert phrase in TRACE + DASHBOARD, phrase
