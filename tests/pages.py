"""The pages of the documentation, as the tests that run their code read them."""

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def blocks(page: str) -> list[str]:
    """The Python of a page, block by block."""
    return re.findall("^```python\n(.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)


def names_of(page: str, **given: Any) -> dict[str, Any]:
    """What the blocks of a page define, one after the other; each call runs them anew."""
    names: dict[str, Any] = {"__name__": "page", **given}
    for block in blocks(page):
        exec(compile(block, page, "exec"), names)
    return names
