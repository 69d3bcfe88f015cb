"""`schemas/README.md` lists the reasons of dead letters in the code."""

import re

from tests.pages import ROOT

PACKAGES = ("tuple_tree", "kafka_clients", "acker_worker", "spout_sdk", "spark_jobs")
GIVEN = re.compile(
    r'(?:\bWireError\(|\bwhy\(|\breason=|\breason = (?:.* else )?)\s*"([a-z-]+)"'
    r'|F\.lit\("([a-z-]+)"\)\.alias\("reason"\)'
)


def test_the_list_is_complete_and_has_no_more() -> None:
    _, _, rest = (ROOT / "schemas" / "README.md").read_text().partition("| record | reasons |\n")
    rows = rest.partition("\n\n")[0].splitlines()[1:]
    listed = {reason for row in rows for reason in re.findall("`([a-z-]+)`", row.split("|")[2])}
    sources = "".join(path.read_text() for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    assert {first or second for first, second in GIVEN.findall(sources)} - listed == set()
    assert [reason for reason in listed if f'"{reason}"' not in sources] == []
