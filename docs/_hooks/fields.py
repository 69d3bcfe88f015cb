"""Tables of the members of JSON objects, made of the classes that declare them.

Marker: `<!-- fields: inspection.view.Snapshot -->`. The meaning of a member is the comment at the end of its line or,
if there is none, above it.
"""

import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from typing import Final

_MARKER: Final = re.compile(r"^<!-- fields: ([\w.]+)\.(\w+) -->$", re.MULTILINE)
_COMMENT: Final = re.compile(r"^\s*#\s?(.*)$|^[^#]*\S  # (.*)$")
_KINDS: Final = {"str": "string", "int": "integer", "float": "number", "bool": "boolean", "None": "null"}


def filled_in(markdown: str) -> str:
    """A page with the tables that its markers request."""
    return _MARKER.sub(lambda found: _table(getattr(importlib.import_module(found[1]), found[2])), markdown)


def _table(cls: type) -> str:
    return "\n".join(("| member | type | meaning |", "|---|---|---|", *_rows(cls)))


def _rows(cls: type) -> Iterator[str]:
    source = textwrap.dedent(inspect.getsource(cls))
    (definition,) = (node for node in ast.parse(source).body if isinstance(node, ast.ClassDef))
    for node in definition.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            text = _comment(source.splitlines(), node)
            yield f"| `{node.target.id}` | {_kind(ast.unparse(node.annotation))} | {text[:1].upper()}{text[1:]} |"


def _comment(lines: list[str], node: ast.AnnAssign) -> str:
    if (found := _COMMENT.match(lines[(node.end_lineno or node.lineno) - 1])) and found[2]:
        return found[2]
    above: list[str] = []
    for line in reversed(lines[: node.lineno - 1]):
        found = _COMMENT.match(line)
        if found is None or found[1] is None:
            break
        above.insert(0, found[1])
    return " ".join(above)


def _kind(annotation: str) -> str:
    """A type in JSON; objects go by the names of their classes, which head their tables."""
    words = re.sub(r"\w+", lambda word: _KINDS.get(word[0], word[0]), annotation.replace(" | ", " or "))
    return re.sub(r"dict\[string, (.*?)\]", r"object of \1", re.sub(r"list\[(.*?)\]", r"array of \1", words))
