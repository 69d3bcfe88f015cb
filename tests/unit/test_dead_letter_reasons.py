"""`schemas/README.md` lists exactly the reasons of dead letters in the code."""

import ast
import re
from collections.abc import Iterator
from typing import Final

from tests.pages import ROOT

PACKAGES: Final = ("tuple_tree", "kafka_clients", "acker_worker", "spout_sdk", "spark_jobs")


def listed() -> set[str]:
    """The reasons of the table."""
    _, _, rest = (ROOT / "schemas" / "README.md").read_text().partition("| record | reasons |\n")
    rows = rest.partition("\n\n")[0].splitlines()[1:]
    return {reason for row in rows for reason in re.findall("`([a-z-]+)`", row.split("|")[2])}


def given(tree: ast.Module) -> Iterator[str]:
    """The reasons of a module, in each form in which code has them."""
    constants = {
        target.id: value
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(value := node.value, ast.Constant)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        for value in _values(node):
            # A field of something that has a reason already.
            if isinstance(value, ast.Subscript):
                continue
            for each in ast.walk(value):
                found = constants.get(each.id) if isinstance(each, ast.Name) else each
                if isinstance(found, ast.Constant) and isinstance(found.value, str):
                    yield found.value


def _values(node: ast.AST) -> Iterator[ast.expr]:
    match node:
        # WireError("truncated", …), and why("no-source", …) in Spark's expressions
        case ast.Call(func=ast.Name(id="WireError" | "why"), args=[first, *_]):
            yield first
        # F.lit("bad-payload").alias("reason")
        case ast.Call(func=ast.Attribute(attr="alias", value=ast.Call(args=[literal])), args=[ast.Constant("reason")]):
            yield literal
        # dead_letter_headers(…, reason="unknown-spout")
        case ast.Call(keywords=keywords):
            yield from (each.value for each in keywords if each.arg == "reason")
        # reason = … if … else "ledger"
        case ast.Assign(targets=[ast.Name(id="reason")], value=value):
            yield value
        # {"reason": EXHAUSTED, …}
        case ast.Dict(keys=keys, values=values):
            for key, value in zip(keys, values, strict=True):
                if isinstance(key, ast.Constant) and key.value == "reason":
                    yield value


def test_the_list_is_complete_and_has_no_more() -> None:
    files = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    assert {reason for path in files for reason in given(ast.parse(path.read_text()))} == listed()
