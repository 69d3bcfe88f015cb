"""The functions in docs/architecture.md exist."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_path_of_a_tuple_has_at_most_ten_functions_which_exist() -> None:
    stops = re.findall(r"^\| \d+ \| `(\S+\.py)` `(\S+)` \|", (ROOT / "docs/architecture.md").read_text(), re.MULTILINE)
    assert 5 <= len(stops) <= 10
    assert len(set(stops)) == len(stops)
    for path, name in stops:
        body: list[ast.stmt] = ast.parse((ROOT / path).read_text()).body
        for part in name.split("."):
            found = [node for node in body if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == part]
            assert found, f"{path} has no {name}"
            body = found[0].body
