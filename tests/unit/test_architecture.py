"""The functions and modules in docs/architecture.md exist, folders list their modules, and imports have no circle."""

import ast
import re
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/architecture.md").read_text()
PACKAGES = re.findall(r"^\| `(\w+)/` \|", PAGE, re.MULTILINE)
CORE = ("tuple_tree", "kafka_clients", "acker_worker", "spout_sdk")
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


def imported(path: Path, names: set[str]) -> set[str]:
    """The modules among `names` that a module imports, for types as well."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{each.name}" for each in node.names} | {node.module}
        elif isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
    return found & names


def test_no_module_of_the_core_imports_itself_through_others() -> None:
    paths = [path for package in CORE for path in (ROOT / package).rglob("*.py") if path.name != "__init__.py"]
    modules = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in paths}
    imports = {name: imported(path, {*modules} - {name}) for name, path in modules.items()}
    assert len([*TopologicalSorter(imports).static_order()]) == len(modules) > 200
