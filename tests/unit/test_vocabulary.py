"""Retired terms do not come back: docs/contributing/vocabulary.md has the ones to use."""

import re
import subprocess

from tests.pages import ROOT

RETIRED = re.compile(
    r"\b(Told|Heard|Burials|Overtaken|untold|silences|_?bury|taken_to|respread|BrokerSight|old news|"
    r"deleted unread|mend the cause|locked door|put out of its transaction|"
    r"does not let this client in|may not be seen by this user|and what waits|[Aa]nybody|rides out|as told|"
    r"unless told|unless said|has heard of|what went in|in other company|make them lie|"
    r"[Tt]his there, that here|heard|hears|[Nn]obody|[Ss]omebody|[Ww]hoever|lay in|where it lay|says so|said so|"
    r"(is|are|be) told|what it says|in vain|knows of|sees to it|hands? over|went on|pass(es|ed) over|puts back|"
    r"[Ww]hatever dies|cannot go on|(is|are) at work|"
    r"[Ss]o (many|much)|[Tt]hose that|[Oo]f which|amid|silence|come_to|last_words|look_at_all|find_families)\b"
    r'|^\s*"""What\b'
)
EXEMPT = {"CHANGELOG.md", "docs/contributing/vocabulary.md", "tests/unit/test_vocabulary.py"}
TEXT = {".avsc", ".md", ".py", ".service", ".sh", ".svg", ".toml", ".tpl", ".txt", ".yaml", ".yml", ".js", ".html", ""}


def test_retired_terms_are_gone() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split(
        "\n"
    )
    files = [path for path in listed if (ROOT / path).suffix in TEXT and path not in EXEMPT and (ROOT / path).is_file()]
    assert len(files) > 500
    found = [
        f"{path}:{number}: {term.group()}"
        for path in files
        for number, line in enumerate((ROOT / path).read_text().splitlines(), 1)
        if (term := RETIRED.search(line))
    ]
    assert not found, "\n".join(found)
