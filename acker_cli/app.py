"""The command: its subcommands, and errors as one line on standard error and an exit code.

Exit codes: 1 for an error, 2 for an invalid command line, 130 for Ctrl-C, 143 for SIGTERM, 0 where these end a service.
"""

import os
import re
import sys
import traceback
from collections.abc import Sequence
from typing import Final, NoReturn

import typer

from acker_cli.commands import (
    chaos,
    config,
    control,
    dashboard,
    dead_letters,
    demo,
    doctor,
    gateway,
    init,
    kafka,
    run,
    spark,
    state,
    status,
    top,
    topics,
    topologies,
    trace,
    worker,
)
from acker_cli.commands.options import examples, flag
from acker_cli.commands.plain_help import PlainGroup
from acker_cli.console import standard_error
from acker_cli.errors import OURS
from acker_cli.interruption import Interrupted

TRACEBACK_VARIABLE: Final = "ACKER_TRACEBACK"
_TRACEBACK_FLAG: Final = "--traceback"
# What typer raises when it has shown the help text because nothing else was asked for.
_HELP_SHOWN: Final = "NoArgsIsHelpError"
_PLACEHOLDER: Final = "MODULE:TOPOLOGY"
_REFERENCE: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_EXIT_ERROR: Final = 1
_EXIT_INTERRUPTED: Final = 130

_COMMANDS: Final = (
    *(demo.demo, init.init, run.run, worker.worker, top.top, trace.trace, status.status),
    *(doctor.doctor, chaos.chaos, dashboard.dashboard, gateway.gateway, kafka.kafka),
)
_GROUPS: Final = {
    "spark": ("Run components of a topology in Apache Spark.", (spark.submit, spark.prepare)),
    "topics": ("Create and check a topology's topics.", (topics.create, topics.acls)),
    "topologies": (
        "List, show, pause, drain, stop and delete the topologies of a cluster.",
        (
            *(topologies.list_, topologies.show, control.pause, control.resume, control.drain, control.stop),
            topologies.delete,
        ),
    ),
    "dead-letters": (
        "List and show the records that could not be used, and replay them.",
        (dead_letters.list_, dead_letters.show, dead_letters.replay),
    ),
    "state": (
        "Read the states of bolts, and reset them.",
        (state.get, state.list_, state.export, state.reset),
    ),
    "config": ("See the settings.", (config.show,)),
}

app = typer.Typer(
    name="acker",
    cls=PlainGroup,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="Tuple trees on Kafka: spouts and bolts whose every tuple is acked, or replayed.",
    epilog=examples(
        ("acker demo", "count the words of two novels through a real Kafka"),
        ("acker init shop", "write a project with a topology, its tests, and files to run it"),
        ("acker run my_module:topology --local", "run your topology, broker and ackers included"),
        ("acker worker", "track the tuple trees of the topologies on your cluster"),
        ("acker top my-topology", "see what it does"),
    ),
)


def _show_version(is_given: bool) -> None:
    if is_given:
        from importlib.metadata import version

        typer.echo(f"acker {version('kafka-acker')}")
        raise typer.Exit


@app.callback()
def _root(
    _version: bool = flag("--version", "Show the version.", callback=_show_version, is_eager=True),
    _traceback: bool = flag(
        _TRACEBACK_FLAG, f"Show where an error came from; goes anywhere [dim]({TRACEBACK_VARIABLE}=1)[/]."
    ),
) -> None:
    pass


for _add_to in _COMMANDS:
    _add_to(app)
for _name, (_help, _members) in _GROUPS.items():
    _group = typer.Typer(cls=PlainGroup, no_args_is_help=True, rich_markup_mode="rich", help=_help)
    for _add_to in _members:
        _add_to(_group)
    app.add_typer(_group, name=_name)


def main(arguments: list[str] | None = None) -> NoReturn:
    given = list(sys.argv[1:] if arguments is None else arguments)
    wants_traceback = _TRACEBACK_FLAG in given or os.environ.get(TRACEBACK_VARIABLE, "0") not in ("", "0")
    given = [argument for argument in given if argument != _TRACEBACK_FLAG]
    try:
        code = app(given, prog_name="acker", standalone_mode=False)
    except Interrupted as interrupted:
        code = interrupted.exit_code
    except (KeyboardInterrupt, typer.Abort):
        code = _EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader of the output has closed it: what is still buffered must not raise another error at the exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = _EXIT_ERROR
    except Exception as error:  # noqa: BLE001 - a traceback is shown only where it was asked for
        if isinstance(error.__cause__, KeyboardInterrupt):  # which came while a client of Kafka's was made
            sys.exit(_EXIT_INTERRUPTED)
        if type(error).__name__ == _HELP_SHOWN:
            sys.exit(0)
        if wants_traceback:
            traceback.print_exc()
        standard_error().print(f"acker: {named(explain(error), given)}", style="red")
        code = getattr(error, "exit_code", _EXIT_ERROR)
    sys.exit(code if isinstance(code, int) else 0)


def named(message: str, given: Sequence[str]) -> str:
    """A message with the topology that the command was given instead of the placeholder."""
    topology = next((argument for argument in given if _REFERENCE.fullmatch(argument)), None)
    return message if topology is None else message.replace(_PLACEHOLDER, topology)


def explain(error: Exception) -> str:
    """An error as one line."""
    # By name: to import every base class would cost more than most commands do.
    if type(error).__module__.split(".")[0] in OURS:
        return str(error)
    if hasattr(error, "format_message"):  # the command line itself is wrong
        context = getattr(error, "ctx", None)
        command = "acker" if context is None else context.command_path
        message = error.format_message().rstrip(".")
        return f"{message}{'' if message.endswith('?') else '.'} See: {command} --help"
    return (
        f"this should not have happened, {type(error).__name__}: {error}. "
        f"Run it again with {_TRACEBACK_FLAG} and report what it shows"
    )
