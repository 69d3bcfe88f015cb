"""How a command is declared: its examples, the settings that it takes, and the arguments that several share."""

import inspect
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer.models import OptionInfo

from acker_cli.errors import CliError

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


@dataclass(frozen=True, slots=True)
class Command:
    """A subcommand; the docstring of its function is its help text."""

    name: str
    function: Callable[..., None]
    epilog: str
    text: str
    extra: bool

    def add_to(self, group: typer.Typer) -> None:
        """Adds it; where `extra`, it takes arguments after `--`."""
        context = {"allow_extra_args": True} if self.extra else None
        group.command(self.name, help=self.text, epilog=self.epilog, context_settings=context)(self.function)


def command(
    name: str,
    *lines: tuple[str, str],
    flags: Mapping[str, Any] | None = None,
    servers: bool = True,
    extra: bool = False,
) -> Callable[[Callable[..., None]], Command]:
    """Declares a subcommand. Where its first parameter is `loaded`, it gets the settings, and their options.

    Args:
        name: of the command.
        lines: examples, each with what it does.
        flags: setting → the option of its own that it has here.
        servers: whether there is --bootstrap-servers.
        extra: whether arguments may follow after `--`.
    """
    taken = _SETTINGS if servers else {name: each for name, each in _SETTINGS.items() if name != "bootstrap_servers"}

    def declare(function: Callable[..., None]) -> Command:
        run = _with_settings(function, flags or {}, taken) if _takes_settings(function) else function
        # The terminal may break paragraphs where it likes.
        paragraphs = inspect.cleandoc(function.__doc__ or "").split("\n\n")
        text = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
        return Command(name, run, examples(*lines), text, extra)

    return declare


def _takes_settings(function: Callable[..., None]) -> bool:
    return next(iter(inspect.signature(function).parameters), "") == "loaded"


def _with_settings(function: Callable[..., None], flags: Mapping[str, Any], taken: Mapping[str, Any]) -> Any:
    """The function with options in place of its parameter `loaded`."""
    own = {name: name.replace(".", "_") for name in flags}

    def run(**given: Any) -> None:
        from acker_cli.settings.layers import Flags, load

        # Later ones win: an option of its own goes before --set.
        assignments = list(given.pop("set_") or ())
        values = {name: given.pop(parameter) for name, parameter in own.items()}
        assignments += [f"{name}={value}" for name, value in values.items() if value is not None]
        loaded = load(Flags(given.pop("config"), given.pop("bootstrap_servers", None), assignments))
        function(loaded, **given)

    def parameter(name: str, annotation: Any) -> inspect.Parameter:
        return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)

    parameters = [
        *(parameter(own[name], each) for name, each in flags.items()),
        *(
            each.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for each in inspect.signature(function).parameters.values()
            if each.name != "loaded"
        ),
        *(parameter(name, each) for name, each in taken.items()),
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
