"""Retired terms do not come back: docs/contributing/vocabulary.md has the ones to use."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = (
    "acker_cli",
    "acker_worker",
    "benchmarks",
    "docs",
    "examples",
    "inspection",
    "kafka_clients",
    "local_kafka",
    "schemas",
    "spark_jobs",
    "spout_sdk",
    "tests",
    "tuple_tree",
)
RETIRED = re.compile(
    r"\b(Told|Heard|Burials|Overtaken|untold|silences|_?bury|taken_to|respread|BrokerSight|old news|"
    r"deleted unread|mend the cause|locked door|put out of its transaction|"
    r"does not let this client in|may not be seen by this user|and what waits|[Aa]nybody|rides out|as told|"
    r"unless told|unless said|has heard of|what went in|in other company|make them lie|"
    r"[Tt]his there, that here|heard|hears|[Nn]obody|[Ss]omebody|[Ww]hoever|lay in|where it lay|says so|said so|"
    r"(is|are|be) told|what it says|in vain|knows of|sees to it|hands? over|went on|pass(es|ed) over|puts back|"
    r"[Ww]hatever dies|cannot go on|(is|are) at work)\b"
)
EXEMPT = {"docs/contributing/vocabulary.md", "tests/unit/test_vocabulary.py"}


@pytest.mark.parametrize("folder", FOLDERS)
def test_retired_terms_are_gone(folder: str) -> None:
    files = [*(ROOT / folder).rglob("*.py"), *(ROOT / folder).rglob("*.md")]
    assert files, f"{folder} has no file to check"
    found = [
        f"{path}:{number}: {term.group()}"
        for file in files
        if (path := file.relative_to(ROOT).as_posix()) not in EXEMPT
        for number, line in enumerate(file.read_text().splitlines(), 1)
        if (term := RETIRED.search(line))
    ]
    assert not found, "\n".join(found)
