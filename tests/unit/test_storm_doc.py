"""*Coming from Storm* has the equivalent of every class and setting of Storm's API for topologies."""

import re
from fnmatch import fnmatch
from pathlib import Path

from tests.pages import ROOT

API = Path(__file__).with_name("storm_api.txt").read_text().splitlines()[1:]


def test_all_of_storms_api_is_in_the_table() -> None:
    page = (ROOT / "docs" / "coming-from" / "storm.md").read_text()
    table = page[page.index("| Storm | here |") : page.index("## Differences")]
    rows = [line.split(" | ")[0] for line in table.splitlines()]
    names = re.findall(r"`([^`]+)`", " ".join(rows))
    words = {word for one in names for word in re.findall(r"\w+", one)}
    assert len(API) > 200
    missing = [
        name
        for name in API
        if name not in words and not any(fnmatch(name, one) for one in names if one.startswith("topology."))
    ]
    assert missing == []
    assert all(row.count("|") == 3 for row in table.splitlines() if row.startswith("|"))
