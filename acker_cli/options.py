"""The options that several commands share, as annotations of their parameters."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

_PANEL = "Settings"

ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="TOML file with settings [dim](ACKER_CONFIG, else acker.toml in this directory)[/].",
        show_default=False,
        rich_help_panel=_PANEL,
    ),
]
ServersOption = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-servers",
        metavar="HOST:PORT,…",
        help="Where Kafka is [dim](ACKER_KAFKA__BOOTSTRAP_SERVERS)[/].",
        show_default=False,
        rich_help_panel=_PANEL,
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Any setting that [bold]acker config show[/] lists, and any librdkafka property under kafka; repeatable.",
        show_default=False,
        rich_help_panel=_PANEL,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
TopologyArgument = Annotated[
    str,
    typer.Argument(
        metavar="MODULE:TOPOLOGY",
        help="A module that can be imported from here, and the variable in it that holds the topology.",
        show_default=False,
    ),
]


def help_of(command: Callable[..., None]) -> str:
    """The help text of a command: its docstring, whose paragraphs the terminal may break where it likes."""
    paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def examples(*lines: tuple[str, str]) -> str:
    """The end of a help text: commands, each with what it does.

    Args:
        lines: command and comment.
    """
    shown = [f"[dim]# {comment}[/]\n\n[cyan]$ {command}[/]" for command, comment in lines]
    return "[bold]Examples[/]\n\n" + "\n\n".join(shown)
