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
            ("acker worker", "serve all topologies of the cluster, and those that come"),
            ("acker worker --topology word-count", "only one; start it on as many machines as you like"),
            ("acker worker --topology word-count --json", "with its numbers, twice a second"),
            ("acker worker --metrics-port 9464", "with metrics at 127.0.0.1:9464/metrics, and /health"),
        ),
    )(worker)


def worker(
    topology: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="The only topology to serve, by its name in acker.topologies.", show_default=False
        ),
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print its numbers as lines of JSON.")] = False,
    metrics_port: MetricsPortOption = None,
    config: ConfigOption = None,
    bootstrap_servers: ServersOption = None,
    set_: SetOption = None,
) -> None:
    """Run an acker worker: follow the tuple trees of topologies and tell their spouts what became of them.

    It serves all topologies that stand in acker.topologies, takes up those that are published while it runs, and lets
    go of those that are deleted; or one, with --topology. Workers share the partitions of a topology, however each was
    started.

    Runs until SIGTERM or Ctrl-C, and gives its partitions to the other workers in order.
    """
    import signal

    from acker_cli.cluster import configured_cluster
    from acker_cli.console import standard_output
    from acker_cli.interruption import interruptible, stopped_by_signals
    from acker_cli.logs import log_to_stderr
    from acker_cli.metrics_server import check_port, metrics_served
    from acker_cli.setting_layers import Flags, load
    from acker_cli.working import all_topologies, one_topology
    from acker_worker.worker import WorkerSettings
    from kafka_clients.catalogue import Catalogue

    loaded = load(Flags(config, bootstrap_servers, assigned(set_, {"metrics.port": metrics_port})))
    settings = loaded.settings
    log_to_stderr(settings.log_level)
    kafka = configured_cluster(loaded).kafka
    worker_settings = WorkerSettings(**settings.worker.model_dump())
    output = standard_output() if json_ else None
    if topology is None:
        working = all_topologies(kafka, worker_settings, output)
    else:
        working = one_topology(topology, kafka, worker_settings, output)
    check_port(settings.metrics)
    with interruptible():
        Catalogue(kafka).reach()
    # Not `interruptible`: a worker stops between two records, never amid one.
    with (
        stopped_by_signals(working.stop) as received,
        metrics_served(settings.metrics, working.collectors, working.health),
    ):
        working.run()
    if signal.SIGINT in received:
        raise typer.Exit(128 + signal.SIGINT)
