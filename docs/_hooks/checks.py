"""The table of the checks of `acker doctor`, made of the texts in the code.

Marker: `<!-- checks -->`.
"""

import importlib
from typing import Final

_MARKER: Final = "<!-- checks -->"


def filled_in(markdown: str) -> str:
    """A page with a table of all checks where its marker stands."""
    if _MARKER not in markdown:
        return markdown
    checks = importlib.import_module("inspection.health.verdict").CHECKS
    rows = [f"| `{check}` | {text} |" for check, text in checks.items()]
    return markdown.replace(_MARKER, "\n".join(("| check | a problem; *or a warning* |", "|---|---|", *rows)))
