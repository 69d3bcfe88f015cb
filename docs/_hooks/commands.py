"""The reference of the command `acker`, made of the help texts of its commands.

Marker: `<!-- commands -->`.
"""

import importlib
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

from rich.text import Text

_MARKER: Final = "<!-- commands -->"


def filled_in(markdown: str) -> str:
    """A page with all commands where its marker stands."""
    return markdown.replace(_MARKER, "\n\n".join(_commands())) if _MARKER in markdown else markdown


def _commands() -> Iterator[str]:
    typer, app = importlib.import_module("typer.main"), importlib.import_module("acker_cli.app")
    yield from _command(typer.get_command(app.app), "acker")


def _command(command: Any, name: str) -> Iterator[str]:
    options = [each for each in command.params if not each.hidden]
    usage = " ".join((name, *(each.metavar or each.name.upper() for each in options if not _is_option(each))))
    yield f"## {name} {{#{name.replace(' ', '-')}}}"
    yield _plain(command.help)
    yield f"```console\n$ {usage}{' [OPTIONS]' if any(map(_is_option, options)) else ''}\n{_examples(command)}```"
    rows = [f"| `{_spelled(each)}` | {_plain(each.help)}{_default(each)} |" for each in options if each.help]
    if rows:
        yield "\n".join(("| argument or option | |", "|---|---|", *rows))
    for inner, each in getattr(command, "commands", {}).items():
        yield from _command(each, f"{name} {inner}")


def _plain(markup: str | None) -> str:
    """A help text without the markup of terminals; `<` would be HTML."""
    return Text.from_markup(markup or "").plain.replace("<", "&lt;").replace("|", "\\|")


def _examples(command: Any) -> str:
    """The examples that stand under a help text: a comment and then a line each."""
    lines = Text.from_markup(command.epilog or "").plain.split("\n\n")
    return "".join(f"{line}  {comment}\n" for comment, line in pairwise(lines) if line.startswith("$ "))


def _is_option(parameter: Any) -> bool:
    return str(parameter.opts[0]).startswith("-")


def _spelled(parameter: Any) -> str:
    name = ", ".join(parameter.opts) if _is_option(parameter) else parameter.metavar or parameter.name.upper()
    return f"{name} {parameter.metavar}" if _is_option(parameter) and parameter.metavar else name


def _default(parameter: Any) -> str:
    shown = parameter.show_default and parameter.default is not None and parameter.default is not False
    return f" Default: `{parameter.default}`." if shown else ""
