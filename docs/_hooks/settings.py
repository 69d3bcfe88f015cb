"""The reference of settings, made of their models: name, variable, default and description.

Marker: `<!-- settings -->`.
"""

import importlib
from collections.abc import Iterator
from typing import Any, Final

from mkdocs.exceptions import PluginError

_MARKER: Final = "<!-- settings -->"


def filled_in(markdown: str) -> str:
    """A page with the table of all settings where its marker stands."""
    if _MARKER not in markdown:
        return markdown
    rows = ["| setting | variable | default | |", "|---|---|---|---|"]
    rows += _rows(importlib.import_module("acker_cli.settings.sections").Settings, "")
    return markdown.replace(_MARKER, "\n".join(rows))


def _rows(model: Any, prefix: str) -> Iterator[str]:
    variable = importlib.import_module("acker_cli.settings.layers").variable
    for key, field in model.model_fields.items():
        name, section = prefix + key, type(field.default)
        if hasattr(section, "model_fields"):
            yield from _rows(section, f"{name}.")
            continue
        if not field.description:
            raise PluginError(f"the setting {name} has no description: give its Field one")
        is_open = field.default_factory is not None  # any property by its own name
        default = "" if is_open or field.default in (None, "") else f"`{field.default}`"
        spelled = variable(name) + ("__…" if is_open else "")
        yield f"| `{name}{'.*' if is_open else ''}` | `{spelled}` | {default} | {field.description} |"
