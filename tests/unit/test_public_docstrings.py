"""Exported names have docstrings, and public classes have only what is for users."""

import ast
import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import spout_sdk
from spout_sdk import (
    ArrowBolt,
    ArrowCollector,
    AsyncBolt,
    AsyncCollector,
    BasicBolt,
    BasicCollector,
    BatchBolt,
    Bolt,
    KafkaBolt,
    KafkaSpout,
    OutputCollector,
    Spout,
    SpoutCollector,
    WindowCollector,
    WindowedBolt,
)


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


_EMITS = {"emit", "metrics", "report_error"}
_OF_A_BOLT = {"streams", "prepare", "cleanup"}
OF_USERS: dict[type, set[str]] = {
    Spout: {"streams", "open", "next_tuple", "ack", "fail", "close"},
    KafkaSpout: {"streams", "open", "ack", "fail", "close"},
    Bolt: {*_OF_A_BOLT, "answers", "tick_interval", "execute"},
    BasicBolt: {*_OF_A_BOLT, "answers", "tick_interval", "execute"},
    KafkaBolt: {"streams"},
    BatchBolt: {*_OF_A_BOLT, "answers", "execute_batch"},
    ArrowBolt: {*_OF_A_BOLT, "execute_batch"},
    WindowedBolt: {*_OF_A_BOLT, "execute_window"},
    AsyncBolt: {
        *("answers", "streams", "concurrency", "time_limit", "stop_timeout", "ordered_by"),
        *("prepare_async", "execute_async", "cleanup_async"),
    },
    SpoutCollector: {*_EMITS, "emit_direct"},
    OutputCollector: {*_EMITS, "emit_direct", "ack", "ack_all", "answer", "fail", "retry", "write", "reset_timeout"},
    BasicCollector: {*_EMITS, "answer", "emit_direct", "input", "reset_timeout"},
    ArrowCollector: {*_EMITS, "ack", "fail", "retry", "reset_timeout"},
    AsyncCollector: {"answer", "emit", "input", "reset_timeout"},
    WindowCollector: {"emit", "reset_timeout"},
}
"""The names that users call, override or read, of the classes that they derive and of their collectors."""


@pytest.mark.parametrize("base", OF_USERS)
def test_public_classes_have_only_what_users_call_or_override(base: type) -> None:
    assert {name for name in dir(base) if not name.startswith("_")} == OF_USERS[base]


@pytest.mark.parametrize("made", [KafkaSpout("topic"), KafkaBolt("topic")])
def test_a_declaration_has_its_arguments(made: Any) -> None:
    arguments = set(inspect.signature(type(made)).parameters)
    assert {name for name in vars(made) if not name.startswith("_")} <= arguments


def test_what_is_private_is_used_in_its_module_only() -> None:
    used = []
    for path in Path(spout_sdk.__file__).parent.rglob("*.py"):
        of_others, own = set[str](), set[str]()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and re.match("_[a-z]", node.attr):
                of_self = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
                of_library = isinstance(node.value, ast.Name) and node.value.id in ("os", "sys")
                of_super = isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "super"
                (own if of_self or of_library or of_super else of_others).add(node.attr)
        used += [f"{path.name}: {name}" for name in of_others - own]
    assert not used
