"""What is written to the terminal: results on standard output, everything else on standard error."""

import json
from collections.abc import Mapping
from typing import Any

from rich.console import Console


def standard_output() -> Console:
    """For what was asked for."""
    return Console(highlight=False, emoji=False, soft_wrap=True)


def standard_error() -> Console:
    """For progress, logs and errors."""
    return Console(stderr=True, highlight=False, emoji=False, soft_wrap=True)


def print_json(value: Mapping[str, Any]) -> None:
    """Prints one JSON object on one line of standard output."""
    standard_output().print(json.dumps(value), markup=False)
