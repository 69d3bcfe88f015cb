"""What is written to the terminal: results on standard output, everything else on standard error."""

import json
from collections.abc import Mapping
from typing import Any, Final

from rich.console import Console
from rich.table import Table

_NO_TERMINAL: Final = 1_000


def standard_output() -> Console:
    """For what was asked for."""
    return Console(highlight=False, emoji=False, soft_wrap=True)


def standard_error() -> Console:
    """For progress, logs and errors."""
    return Console(stderr=True, highlight=False, emoji=False, soft_wrap=True)


def plain_table(*headings: str) -> Table:
    """An empty table without lines, as all of ours look."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in headings:
        table.add_column(heading)
    return table


def print_table(output: Console, table: Table) -> None:
    """Prints a table; where there is no terminal, a row is a line, however long."""
    if not output.is_terminal:
        output.width = _NO_TERMINAL
    output.print(table)


def print_json(value: Mapping[str, Any]) -> None:
    """Prints one JSON object on one line of standard output."""
    standard_output().print(json.dumps(value), markup=False)
