"""`docs/inspection.md` names what there is."""

import re
from pathlib import Path

import typer
from typer.main import get_command

from acker_cli.app import app
from inspection.trace.families import MOST_CANDIDATES
from inspection.trace_reader import CLOCK_MS

DOC = (Path(__file__).parents[3] / "docs" / "inspection.md").read_text()
SECTION = DOC[DOC.index("## Trace") :]


def test_the_options_of_trace_exist() -> None:
    context = typer.Context(get_command(app))
    command = get_command(app).get_command(context, "trace")  # type: ignore[attr-defined]
    known = {option for parameter in command.params for option in parameter.opts}
    named = set(re.findall(r"`(?:[^`]*\s)?(--[a-z][a-z-]+)", SECTION.partition("\n## ")[0]))
    assert {"--oldest", "--last-failed", "--message", "--since", "--json", "--topology"} <= named <= known


def test_the_numbers_are_those_of_the_code() -> None:
    assert f"With up to {MOST_CANDIDATES} tuples" in SECTION
    assert f"with {CLOCK_MS // 1000} seconds on either side" in SECTION
