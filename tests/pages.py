"""The pages of the documentation, as the tests that run their code read them."""

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def blocks(page: str) -> list[str]:
    """The Python of a page, block by block."""
    return re.findall("^```python\n(.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)


def names_of(page: str, **given: Any) -> dict[str, Any]:
    """The names that the blocks of a page define, in order; each call runs them again."""
    names: dict[str, Any] = {"__name__": "page", **given}
    for block in blocks(page):
        exec(compile(block, page, "exec"), names)
    return names


def pasted(page: str, directory: Path) -> list[str]:
    """Writes each block of a page that begins with the name of a file, as `# readings.py`, there; returns the names."""
    names = []
    for block in blocks(page):
        if (named := re.match(r"# (\w+\.py)\n", block)) is not None:
            names.append(named[1])
            (directory / named[1]).write_text(block)
    assert len(names) == len(blocks(page)), f"a block of {page} does not begin with the name of its file"
    return names


def commands(page: str) -> list[str]:
    """The command lines of the consoles of a page."""
    consoles = re.findall("^```console\n(.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)
    return re.findall(r"^\$ (.*)$", "".join(consoles), re.MULTILINE)
