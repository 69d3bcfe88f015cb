"""Exported names have docstrings, and private names are used in their module only."""

import ast
import importlib
import inspect
import pkgutil
import re
from collections import Counter
from pathlib import Path

import pytest

import spout_sdk

MODULES = [f"spout_sdk.{each.name}" for each in pkgutil.iter_modules(spout_sdk.__path__)]
EXPORTS = {
    name: exported
    for name in ("spout_sdk", *MODULES)
    if (exported := getattr(importlib.import_module(name), "__all__", None))
}
"""Module → the names that it exports."""


def test_the_top_level_is_small_and_each_name_is_public_and_documented_in_one_module() -> None:
    assert len(EXPORTS["spout_sdk"]) <= 25
    assert {*EXPORTS} > {f"spout_sdk.{each}" for each in ("errors", "state", "windows", "client", "testing")}
    exported = Counter(name for names in EXPORTS.values() for name in names)
    assert [name for name, times in exported.items() if times > 1] == []
    pages = "".join(page.read_text() for page in (Path(__file__).parents[2] / "docs/reference").glob("*.md"))
    assert [module for module in EXPORTS if f"<!-- members: {module} " not in pages] == []


@pytest.mark.parametrize("package", [*EXPORTS, "spark_jobs", "local_kafka"])
def test_exported_names_have_docstrings(package: str) -> None:
    module = importlib.import_module(package)
    missing = []
    for name in module.__all__:
        exported = getattr(module, name)
        if not (inspect.isclass(exported) or inspect.isfunction(exported)):
            continue
        if not exported.__doc__:
            missing.append(name)
        if inspect.isclass(exported):
            members = [(each, value) for each, value in vars(exported).items() if not each.startswith("_")]
            for each, value in members:
                is_method = isinstance(value, property | staticmethod | classmethod) or inspect.isfunction(value)
                if is_method and not inspect.getdoc(getattr(exported, each)):
                    missing.append(f"{name}.{each}")
    assert not missing, f"{package} exports names without docstrings: {', '.join(missing)}"


def test_what_is_private_is_used_in_its_module_only() -> None:
    used = []
    for path in Path(spout_sdk.__file__).parent.rglob("*.py"):
        of_others, own = set[str](), set[str]()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and re.match(
                "_(?!(replace|fields|make)$)[a-z]", node.attr
            ):  # that of a named tuple
                of_self = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
                of_library = isinstance(node.value, ast.Name) and node.value.id in ("os", "sys")
                of_super = isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "super"
                (own if of_self or of_library or of_super else of_others).add(node.attr)
        used += [f"{path.name}: {name}" for name in of_others - own]
    assert not used
