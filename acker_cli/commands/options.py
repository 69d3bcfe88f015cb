"""How a command is declared: its examples, the settings that it takes, and the arguments that several share."""

import inspect
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer.models import OptionInfo

from acker_cli.errors import CliError
from acker_cli.settings import Flags

if TYPE_CHECKING:
    from spout_sdk import Topology


def option(metavar: str | None, text: str, *flags: str, **more: Any) -> OptionInfo:
    """An option that is not set unless given."""
    made: OptionInfo = typer.Option(*flags, metavar=metavar, help=text, show_default=False, **more)
    return made


def _setting(metavar: str, text: str, flag: str) -> OptionInfo:
    return option(metavar, text, flag, rich_help_panel="Settings")


_SETTINGS: Final[Mapping[str, Any]] = {
    "config": Annotated[
        Path | None,
        _setting(
            "FILE", "TOML file with settings [dim](ACKER_CONFIG, else acker.toml in this directory)[/].", "--config"
        ),
    ],
    "bootstrap_servers": Annotated[
        str | None,
        _setting("HOST:PORT,…", "Where Kafka is [dim](ACKER_KAFKA__BOOTSTRAP_SERVERS)[/].", "--bootstrap-servers"),
    ],
    "set_": Annotated[
        list[str] | None,
        _setting(
            "NAME=VALUE",
            "Any setting that [bold]acker config show[/] lists, and any librdkafka property under kafka; repeatable.",
            "--set",
        ),
    ],
}
MetricsPortOption = Annotated[
    int | None,
    _setting(
        "PORT",
        "Serve /metrics for Prometheus, and /health, at this port of 127.0.0.1, for all that the command starts. "
        "Several commands on a machine need one each; 0 takes a free one, and the log says which. For another address: "
        "--set metrics.host=0.0.0.0 [dim](ACKER_METRICS__PORT, ACKER_METRICS__HOST)[/].",
        "--metrics-port",
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


Command = Callable[[typer.Typer], None]
"""Adds a subcommand to a group."""


def command(
    name: str,
    *lines: tuple[str, str],
    flags: Mapping[str, Any] | None = None,
    servers: bool = True,
    extra: bool = False,
) -> Callable[[Callable[..., None]], Command]:
    """Declares a subcommand by a function, whose docstring is its help text.

    Where the function's first parameter is `loaded`, it gets the settings, and the command has their options.

    Args:
        name: of the command.
        lines: examples, each with what it does.
        flags: setting → the option of its own that it has here.
        servers: whether there is --bootstrap-servers.
        extra: whether arguments may follow after `--`.
    """
    options = dict(_SETTINGS)
    if not servers:
        del options["bootstrap_servers"]

    def declare(function: Callable[..., None]) -> Command:
        takes_settings = next(iter(inspect.signature(function).parameters), "") == "loaded"
        run = _with_settings(function, flags or {}, options) if takes_settings else function
        # The terminal may break paragraphs where it likes.
        paragraphs = inspect.cleandoc(function.__doc__ or "").split("\n\n")
        text = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
        context = {"allow_extra_args": True} if extra else None

        def add_to(group: typer.Typer) -> None:
            group.command(name, help=text, epilog=examples(*lines), context_settings=context)(run)

        return add_to

    return declare


def _with_settings(function: Callable[..., None], flags: Mapping[str, Any], options: Mapping[str, Any]) -> Any:
    """The function with options in place of its parameter `loaded`."""
    own = {name: name.replace(".", "_") for name in flags}

    def run(**given: Any) -> None:
        from acker_cli.settings.layers import load

        # Later ones win: an option of its own goes before --set.
        assignments = list(given.pop("set_") or ())
        values = {name: given.pop(parameter) for name, parameter in own.items()}
        assignments += [f"{name}={value}" for name, value in values.items() if value is not None]
        loaded = load(Flags(given.pop("config"), given.pop("bootstrap_servers", None), assignments))
        function(loaded, **given)

    def parameter(name: str, annotation: Any) -> inspect.Parameter:
        return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)

    _loaded, *inner = inspect.signature(function).parameters.values()
    parameters = [
        *(parameter(own[name], each) for name, each in flags.items()),
        *(each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in inner),
        *(parameter(name, each) for name, each in options.items()),
    ]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


def examples(*lines: tuple[str, str]) -> str:
    """The end of a help text: commands, each with what it does."""
    shown = [f"[dim]# {comment}[/]\n\n[cyan]$ {line}[/]" for line, comment in lines]
    return "[bold]Examples[/]\n\n" + "\n\n".join(shown)


def load_from_here(reference: str) -> "Topology":
    """Imports a topology; modules in the working directory are found first, here and in child processes."""
    from spout_sdk import SpoutSdkError, load_topology

    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return load_topology(reference)
    except SpoutSdkError:
        raise
    except Exception as error:  # whatever a user's function raises
        raise CliError(
            f"{reference!r} raised {type(error).__name__}: {error}; "
            "name a Topology, or a function without arguments that returns one"
        ) from error
