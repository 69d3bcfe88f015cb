"""`acker worker`."""

from typing import Annotated

import typer

from acker_cli.options import (
    ConfigOption,
    MetricsPortOption,
    ServersOption,
    SetOption,
    assigned,
    examples,
    help_of,
)


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(
        "worker",
        help=help_of(worker),
        epilog=examples(
            ("acker worker --topology word-count", "start it on as many machines as you like: they share the work"),
            ("acker worker --topology word-count --json", "with its numbers, twice a second"),
            (
                "acker worker --topology word-count --metrics-port 9464",
                "with metrics at 127.0.0.1:9464/metrics, and /health",
            ),
        ),
    )(worker)


def worker(
    topology: Annotated[
        str, typer.Option(metavar="NAME", help="The topology's name in acker.topologies.", show_default=False)
    ],
    json_: Annotated[bool, typer.Option("--json", help="Print its numbers as lines of JSON.")] = False,
    metrics_port: MetricsPortOption = None,
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
    from acker_cli.loops import ACKER_LOOP, Loop
    from acker_cli.metrics_server import metrics_served
    from acker_cli.setting_layers import Flags, load
    from acker_worker.metrics import WorkerCollector
    from acker_worker.stats import WorkerStats
    from acker_worker.worker import AckerWorker, WorkerSettings

    loaded = load(Flags(config, bootstrap_servers, assigned(set_, {"metrics.port": metrics_port})))
    settings = loaded.settings
    log_to_stderr(settings.log_level)
    output = standard_output()
    loop = Loop(ACKER_LOOP)
    latest = WorkerStats()

    def on_stats(stats: WorkerStats) -> None:
        nonlocal latest
        latest = stats
        loop.turned()
        if json_:
            output.print(stats.to_json(), markup=False)

    acker = AckerWorker(
        topology,
        configured_cluster(loaded).kafka,
        WorkerSettings(**settings.worker.model_dump()),
        on_stats,
    )
    received: list[int] = []

    # Not `interruptible`: a worker stops between two records, never amid one.
    def on_signal(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        acker.stop()

    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, on_signal)
    with metrics_served(settings.metrics, [WorkerCollector(topology, lambda: latest)], loop.silences):
        acker.run()
    if signal.SIGINT in received:
        raise typer.Exit(128 + signal.SIGINT)
