"""`acker worker`."""

from typing import Annotated

import typer

from acker_cli.options import ConfigOption, ServersOption, SetOption, examples, help_of


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(
        "worker",
        help=help_of(worker),
        epilog=examples(
            ("acker worker --topology word-count", "start it on as many machines as you like: they share the work"),
            ("acker worker --topology word-count --json", "with its numbers, twice a second"),
        ),
    )(worker)


def worker(
    topology: Annotated[
        str, typer.Option(metavar="NAME", help="The topology's name in acker.topologies.", show_default=False)
    ],
    json_: Annotated[bool, typer.Option("--json", help="Print its numbers as lines of JSON.")] = False,
    config: ConfigOption = None,
    bootstrap_servers: ServersOption = None,
    set_: SetOption = None,
) -> None:
    """Run an acker worker: follow the tuple trees of a topology and tell its spouts what became of them.

    Runs until SIGTERM or Ctrl-C, and gives its partitions to the other workers in order.
    """
    import signal
    from types import FrameType

    from acker_cli.cluster import configured_cluster
    from acker_cli.console import standard_output
    from acker_cli.logs import log_to_stderr
    from acker_cli.setting_layers import Flags, load
    from acker_worker.stats import WorkerStats
    from acker_worker.worker import AckerWorker, WorkerSettings

    loaded = load(Flags(config, bootstrap_servers, set_ or ()))
    settings = loaded.settings
    log_to_stderr(settings.log_level)
    output = standard_output()

    def print_stats(stats: WorkerStats) -> None:
        output.print(stats.to_json(), markup=False)

    acker = AckerWorker(
        topology,
        configured_cluster(loaded).kafka,
        WorkerSettings(**settings.worker.model_dump()),
        on_stats=print_stats if json_ else None,
    )
    received: list[int] = []

    # Not `interruptible`: a worker stops between two records, never amid one.
    def on_signal(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        acker.stop()

    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, on_signal)
    acker.run()
    if signal.SIGINT in received:
        raise typer.Exit(128 + signal.SIGINT)
