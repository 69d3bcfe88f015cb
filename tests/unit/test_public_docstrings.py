"""Exported names have docstrings, and private names are used in their module only."""

import ast
import importlib
import inspect
import re
from pathlib import Path

import pytest

import spout_sdk


@pytest.mark.parametrize("package", ["spout_sdk", "spout_sdk.testing", "spark_jobs", "local_kafka"])
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
