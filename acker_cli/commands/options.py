"""How a command is declared: its examples, the settings that it takes, and the arguments that several share."""

import inspect
import os
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from acker_cli.commands.plain_help import PlainCommand, PlainGroup
from acker_cli.errors import SettingsError

if TYPE_CHECKING:
    from spout_sdk import Topology


def option(metavar: str | None, text: str, *flags: str, default: Any = None, **more: Any) -> Any:
    """An option; with `...` as its default it has to be given."""
    is_shown = default is not None and default is not ...
    return typer.Option(default, *flags, metavar=metavar, help=text, show_default=is_shown, **more)


def flag(name: str, text: str, **more: Any) -> Any:
    """An option without a value."""
    return typer.Option(False, name, help=text, **more)


def argument(metavar: str, text: str, default: Any = ..., **more: Any) -> Any:
    return typer.Argument(default, metavar=metavar, help=text, show_default=False, **more)


def _setting(metavar: str, text: str, name: str) -> Any:
    return option(metavar, text, name, rich_help_panel="Settings")


def _parameter(name: str, kind: Any, info: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=info, annotation=kind)


_CONFIG: Final = _setting(
    "FILE", "TOML file with settings [dim](ACKER_CONFIG, else acker.toml in this directory)[/].", "--config"
)
_SERVERS: Final = _setting(
    "HOST:PORT,…", "Where Kafka is [dim](ACKER_KAFKA__BOOTSTRAP_SERVERS)[/].", "--bootstrap-servers"
)
_SET: Final = _setting(
    "NAME=VALUE",
    "Any setting that [bold]acker config show[/] lists, and any librdkafka property under kafka; repeatable.",
    "--set",
)
METRICS_PORT: Final = _setting(
    "PORT",
    "Serve /metrics for Prometheus, and /health, at this port of 127.0.0.1, for all that the command starts. "
    "Several commands on a machine need one each; 0 takes a free one, which is in the log. For another address: "
    "--set metrics.host=0.0.0.0 [dim](ACKER_METRICS__PORT, ACKER_METRICS__HOST)[/].",
    "--metrics-port",
)
JSON: Final = flag("--json", "Print JSON, for programs.")
REFERENCE: Final = argument(
    "MODULE:TOPOLOGY", "A module that can be imported from here, and the variable in it that holds the topology."
)

Command = Callable[[typer.Typer], None]
"""Adds a subcommand to a group."""


def command(
    name: str,
    *lines: tuple[str, str],
    flags: Mapping[str, tuple[Any, Any]] | None = None,
    servers: bool = True,
    extra: bool = False,
    members: Sequence[Command] = (),
) -> Callable[[Callable[..., None]], Command]:
    """Declares a subcommand by a function, whose docstring is its help text.

    Where the function's first parameter is `loaded`, it gets the settings, and the command has their options.

    Args:
        name: of the command.
        lines: examples, each with what it does.
        flags: setting → type and option of its own that it has here.
        servers: whether there is --bootstrap-servers.
        extra: whether arguments may follow after `--`.
        members: subcommands of it.
    """

    def declare(function: Callable[..., None]) -> Command:
        takes_settings = next(iter(inspect.signature(function).parameters), "") == "loaded"
        run = _with_settings(function, flags or {}, servers=servers) if takes_settings else function
        # The terminal may break paragraphs where it likes.
        paragraphs = inspect.cleandoc(function.__doc__ or "").split("\n\n")
        text = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
        context = {"allow_extra_args": True} if extra else None

        def add_with_members_to(group: typer.Typer) -> None:
            inner = typer.Typer(cls=PlainGroup, rich_markup_mode="rich", help=text, epilog=examples(*lines))
            inner.callback(invoke_without_command=True)(_unless_member(run))
            for add_member_to in members:
                add_member_to(inner)
            group.add_typer(inner, name=name)

        if members:
            return add_with_members_to

        def add_to(group: typer.Typer) -> None:
            group.command(name, cls=PlainCommand, help=text, epilog=examples(*lines), context_settings=context)(run)

        return add_to

    return declare


def _with_settings(function: Callable[..., None], flags: Mapping[str, Any], *, servers: bool) -> Any:
    """The function with options in place of its parameter `loaded`."""
    own = {name.replace(".", "_"): name for name in flags}

    def run(**given: Any) -> None:
        from acker_cli.settings.layers import load

        # Later ones win: an option of its own goes before --set.
        values = {name: given.pop(parameter) for parameter, name in own.items()}
        assignments = [*(given.pop("set_") or ())]
        assignments += [f"{name}={value}" for name, value in values.items() if value is not None]
        function(load(given.pop("config"), given.pop("bootstrap_servers", None), assignments), **given)

    _loaded, *inner = inspect.signature(function).parameters.values()
    every = [
        *(_parameter(parameter, *flags[name]) for parameter, name in own.items()),
        *(_parameter(each.name, each.annotation, each.default) for each in inner),
        _parameter("config", Path | None, _CONFIG),
        *([_parameter("bootstrap_servers", str | None, _SERVERS)] if servers else []),
        _parameter("set_", list[str] | None, _SET),
    ]
    run.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in every}
    return run


def _unless_member(run: Callable[..., None]) -> Any:
    """Runs a command with subcommands only where none of these is named."""

    def run_alone(context: typer.Context, **given: Any) -> None:
        if context.invoked_subcommand is None:
            run(**given)

    context = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    every = [context, *inspect.signature(run).parameters.values()]
    run_alone.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
    run_alone.__annotations__ = {each.name: each.annotation for each in every}
    return run_alone


def examples(*lines: tuple[str, str]) -> str:
    """The end of a help text: commands, each with what it does."""
    shown = [f"[dim]# {comment}[/]\n\n[cyan]$ {line}[/]" for line, comment in lines]
    return "[bold]Examples[/]\n\n" + "\n\n".join(shown)


def load_from_here(reference: str) -> "Topology":
    """Imports a topology; modules in the working directory are found first, here and in child processes."""
    from spout_sdk import load_topology

    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    return load_topology(reference)


def only_topology(topologies: Collection[str], how: str = "") -> str:
    """The only topology of a cluster; an error if there are several, which ends with `how` to name one."""
    if not topologies:
        from kafka_clients.errors import UnknownTopologyError

        raise UnknownTopologyError("", [])
    if len(topologies) > 1:
        raise SettingsError(f"say which topology{how}: the cluster has {', '.join(sorted(topologies))}")
    (only,) = topologies
    return only
