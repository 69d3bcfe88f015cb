"""Exported names have docstrings; the linter does not require those of internals."""

import importlib
import inspect

import pytest

from spout_sdk import ArrowBolt, BasicBolt, BatchBolt, Bolt, Spout


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


@pytest.mark.parametrize("base", [Spout, Bolt, BasicBolt, BatchBolt, ArrowBolt])
def test_base_classes_have_only_what_users_call_or_override(base: type) -> None:
    own = {name for name in vars(base) if not name.startswith("__")} - {"_abc_impl"}
    assert not {name for name in own if name.startswith("_")}
    assert "Called by the SDK" not in "".join(inspect.getdoc(vars(base)[name]) or "" for name in own)
