"""The functions and modules in docs/architecture.md exist, and each folder lists its modules."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/architecture.md").read_text()
PACKAGES = re.findall(r"^\| `(\w+)/` \|", PAGE, re.MULTILINE)
NOT_LISTED = {"acker_cli/commands"}  # a module for each subcommand


def test_the_path_of_a_tuple_has_at_most_ten_functions_which_exist() -> None:
    stops = re.findall(r"^\| \d+ \| `(\S+\.py)` `(\S+)` \|", PAGE, re.MULTILINE)
    assert 5 <= len(stops) <= 10
    assert len(set(stops)) == len(stops)
    for path, name in stops:
        body: list[ast.stmt] = ast.parse((ROOT / path).read_text()).body
        for part in name.split("."):
            found = [node for node in body if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == part]
            assert found, f"{path} has no {name}"
            body = found[0].body


def modules(folder: Path) -> set[str]:
    """The modules and folders of a package."""
    found = {path.stem for path in folder.glob("*.py")} | {path.parent.name for path in folder.glob("*/__init__.py")}
    return found - {"__init__", "__main__"}


def test_each_folder_lists_its_modules() -> None:
    """In the docstring of its `__init__.py`, or of that of the folder around it."""
    assert len(PACKAGES) >= 8
    missing = []
    for package in PACKAGES:
        for init in (ROOT / package).rglob("__init__.py"):
            folder, around = init.parent, init.parent.parent / "__init__.py"
            texts = [ast.get_docstring(ast.parse(each.read_text())) or "" for each in (init, around) if each.exists()]
            listed = set(re.findall(r"`(\w+)/?`", " ".join(texts)))
            if str(folder.relative_to(ROOT)) not in NOT_LISTED:
                missing += [f"{folder.relative_to(ROOT)}: {name}" for name in sorted(modules(folder) - listed)]
    assert not missing
