"""The reference of the wire, made of the schemas and of the functions that name topics and groups.

Markers: `<!-- schema: ack_batch -->`, `<!-- model: tuple_tree.manifest.Manifest -->`, `<!-- names -->`,
`<!-- topics -->`, `<!-- reasons -->`.
"""

import ast
import importlib
import json
import re
from pathlib import Path
from typing import Any, Final

import outside
from docstrings import text_of

_SCHEMAS: Final = outside.ROOT / "schemas"
_SCHEMA: Final = re.compile(r"^<!-- schema: (\w+) -->$", re.MULTILINE)
_MODEL: Final = re.compile(r"^<!-- model: (tuple_tree\.\w+)\.(\w+) -->$", re.MULTILINE)


def filled_in(markdown: str) -> str:
    """A page with the tables that its markers ask for."""
    markdown = _SCHEMA.sub(lambda found: _schema(found[1]), markdown)
    markdown = _MODEL.sub(lambda found: _model(found[1], found[2]), markdown)
    for marker, made in (("<!-- names -->", _names), ("<!-- topics -->", _topics), ("<!-- reasons -->", _reasons)):
        if marker in markdown:
            markdown = markdown.replace(marker, made())
    return markdown


def _schema(name: str) -> str:
    schema = json.loads((_SCHEMAS / f"{name}.avsc").read_text())
    headers = importlib.import_module("tuple_tree.messages").SingleObjectCodec(schema).headers
    begins = " or, without the fields about marks, ".join(f"`{header.hex()}`" for header in headers)
    rows = [f"| `{field}` | {kind} | {doc} |" for field, kind, doc in _fields(schema, "")]
    return "\n".join(
        (
            schema["doc"],
            "",
            f"`{schema['namespace']}.{schema['name']}`; its records begin with {begins}.",
            "",
            "| field | type | |",
            "|---|---|---|",
            *rows,
        )
    )


def _fields(schema: dict[str, Any], prefix: str) -> list[tuple[str, str, str]]:
    rows: list[tuple[str, str, str]] = []
    for field in schema["fields"]:
        kind = field["type"]
        rows.append((prefix + field["name"], _kind(kind), field.get("doc", "")))
        for inner in kind if isinstance(kind, list) else [kind]:
            if isinstance(inner, dict) and inner["type"] == "record":
                rows += _fields(inner, f"{prefix}{field['name']}.")
    return rows


def _kind(kind: Any) -> str:
    if isinstance(kind, list):
        return " or ".join(_kind(each) for each in kind)
    if isinstance(kind, str):
        return kind
    sizes = {"fixed": "{size} bytes, fixed", "array": "array of {items}", "record": "{name}"}
    return sizes[kind["type"]].format(**kind)


def _model(module: str, name: str) -> str:
    """The members of a part of the manifest, with their types as JSON and what they are by default."""
    schema = getattr(importlib.import_module(module), name).model_json_schema()
    rows = ["| member | type | default |", "|---|---|---|"]
    for member, of in schema["properties"].items():
        default = f"`{json.dumps(of['default'])}`" if "default" in of else "none"
        rows.append(f"| `{member}` | {_json_kind(of)} | {default} |")
    return "\n".join(rows)


def _json_kind(of: dict[str, Any]) -> str:
    if "const" in of:
        return f"`{json.dumps(of['const'])}`"
    if "enum" in of:
        return ", ".join(f"`{each}`" for each in of["enum"])
    if "oneOf" in of:
        return " or ".join(_json_kind(each) for each in of["oneOf"])
    if "$ref" in of:
        return f"`{of['$ref'].rpartition('/')[2]}`"
    kind = of.get("type", "any")
    return f"array of {_json_kind(of['items'])}" if kind == "array" else str(kind)


def _names() -> str:
    """The names of topics and groups: each function of `tuple_tree.names`, called with placeholders."""
    names = importlib.import_module("tuple_tree.names")
    rows = ["| name | |", "|---|---|"]
    for node in ast.parse(Path(names.__file__ or "").read_text()).body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith(("_", "check_")):
            made = getattr(names, node.name)(*(f"{{{argument.arg}}}" for argument in node.args.args))
            rows.append(f"| `{made}` | {' '.join(text_of(ast.get_docstring(node)).split())} |")
    rows.append(f"| `{names.TOPOLOGIES_TOPIC}` | Which topologies there are: topology → manifest. |")
    return "\n".join(rows)


def _topics() -> str:
    """The result of `topic_specs` for a topology of one spout and one bolt, with default settings."""
    topics, sdk = importlib.import_module("tuple_tree.topics"), importlib.import_module("spout_sdk")
    builder = sdk.TopologyBuilder("topology")
    builder.set_spout("spout", sdk.KafkaSpout("source"), tasks=2)
    bolt = type("AnyBolt", (sdk.Bolt,), {"execute": lambda _self, _tuple: None})
    builder.set_bolt("bolt", bolt, tasks=3).shuffle_grouping("spout")
    rows = ["| topic | partitions | made with | refused without |", "|---|---|---|---|"]
    specs = topics.topic_specs(builder.build().manifest)
    rows += (
        f"| `{each.name}` | {each.partitions} | {_settings(each.config)} | {_settings(each.required)} |"
        for each in specs
    )
    return "\n".join(rows)


def _settings(settings: dict[str, str]) -> str:
    return "<br>".join(f"`{key}={value}`" for key, value in settings.items()) or "none"


def _reasons() -> str:
    source = ast.parse((outside.ROOT / "tuple_tree" / "messages.py").read_text())
    (reasons,) = (node for node in source.body if isinstance(node, ast.ClassDef) and node.name == "FailReason")
    rows = ["| byte | reason | |", "|---|---|---|"]
    for node, doc in zip(reasons.body, reasons.body[1:], strict=False):
        if isinstance(node, ast.Assign) and isinstance(doc, ast.Expr) and isinstance(node.targets[0], ast.Name):
            text = ast.literal_eval(doc.value)
            rows.append(f"| {ast.unparse(node.value)} | `{node.targets[0].id.lower()}` | {text} |")
    return "\n".join(rows)
