"""The reference, made of the code and kept in its pages, so that it is text in a checkout as well.

What is made follows its marker, up to `<!-- end -->`; `make reference` makes it again, and a build of the site ends
where a page is not that of its code.
"""

import re
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"
sys.path.insert(0, str(ROOT))

import checks  # noqa: E402 - the code of this checkout, whichever one is installed
import commands  # noqa: E402
import docstrings  # noqa: E402
import fields  # noqa: E402
import metrics  # noqa: E402
import settings  # noqa: E402
import wire  # noqa: E402

_MADE: Final = re.compile(r"^(<!-- (?!end\b)\w[^\n]*-->)\n\n.*?\n\n<!-- end -->$", re.MULTILINE | re.DOTALL)
_MARKER: Final = re.compile(r"^<!-- (?!end\b)\w[^\n]*-->$", re.MULTILINE)


def up_to_date(markdown: str, uri: str) -> str:
    """A page of the documentation with what follows its markers made again."""
    bare = _MADE.sub(r"\1", markdown)
    if uri.startswith("reference/"):
        docstrings.check(bare, uri)
    return _MARKER.sub(lambda found: _made(found[0]), bare)


def _made(marker: str) -> str:
    text = docstrings.filled_in(marker)
    for maker in (checks, commands, fields, metrics, settings, wire):
        text = maker.filled_in(text)
    return marker if text == marker else f"{marker}\n\n{text.strip()}\n\n<!-- end -->"


def write() -> None:
    """Writes all pages that have changed."""
    for path in sorted(DOCS.rglob("*.md")):
        before = path.read_text()
        after = up_to_date(before, path.relative_to(DOCS).as_posix())
        if after != before:
            path.write_text(after)


if __name__ == "__main__":
    write()
