"""The options that several commands share, as annotations of their parameters."""

import inspect
from collections.abc import Callable, Mapping
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
MetricsPortOption = Annotated[
    int | None,
    typer.Option(
        "--metrics-port",
        metavar="PORT",
        help="Serve /metrics for Prometheus, and /health, at this port of 127.0.0.1, for all that the command starts. "
        "Several commands on a machine need one each; 0 takes a free one, and the log says which. For another address: "
        "--set metrics.host=0.0.0.0 [dim](ACKER_METRICS__PORT, ACKER_METRICS__HOST)[/].",
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


def assigned(set_: list[str] | None, flags: Mapping[str, object]) -> list[str]:
    """What `--set` says, and after it, so that they win, the settings that have a flag of their own.

    Args:
        set_: `NAME=VALUE`, as given.
        flags: name → value; None if the flag was not given.
    """
    return [*(set_ or ()), *(f"{name}={value}" for name, value in flags.items() if value is not None)]


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
