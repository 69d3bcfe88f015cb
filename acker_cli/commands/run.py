"""`acker run`."""

from typing import Annotated

import typer

from acker_cli.options import (
    ConfigOption,
    MetricsPortOption,
    ServersOption,
    SetOption,
    TopologyArgument,
    assigned,
    examples,
    help_of,
)


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(
        "run",
        help=help_of(run),
        epilog=examples(
            ("acker run my_module:topology --local", "everything on this machine, broker and ackers included"),
            ("acker run my_module:topology --local --processes split=2", "with two processes for one component"),
            ("acker run my_module:topology --local --feed clicks=clicks.jsonl", "a file as the messages of a topic"),
            ("acker run my_module:topology --local --dashboard", "and its graph and figures in the browser"),
            ("acker run my_module:topology --component split", "one component on your cluster, as in a container"),
            ("acker run my_module:topology --ackers 2", "all components on your cluster, and two acker workers"),
        ),
    )(run)


def run(
    reference: TopologyArgument,
    component: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Run only this component, in this process.", show_default=False),
    ] = None,
    local: Annotated[
        bool, typer.Option("--local", help="Start an embedded broker and an acker worker as well.")
    ] = False,
    ackers: Annotated[
        int | None,
        typer.Option(min=0, help="Acker workers to start; 1 with --local, else 0.", show_default=False),
    ] = None,
    processes: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=N", help="Processes for a component; 1 each; repeatable.", show_default=False),
    ] = None,
    feed: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TOPIC=FILE",
            help="With --local: write each line of a file, or - for standard input, into a source topic; repeatable.",
            show_default=False,
        ),
    ] = None,
    dashboard: Annotated[
        bool,
        typer.Option(
            "--dashboard", help="Serve the dashboard as well; where, the settings of [bold]acker dashboard[/] say."
        ),
    ] = False,
    metrics_port: MetricsPortOption = None,
    config: ConfigOption = None,
    bootstrap_servers: ServersOption = None,
    set_: SetOption = None,
) -> None:
    """Run a topology until Ctrl-C.

    Each component runs in processes of its own, which are started again if they end. Modules are found from the
    working directory. With --local the topics that the spouts read are created.
    """
    from contextlib import ExitStack

    from acker_cli.acker_watch import warned_without_ackers
    from acker_cli.cluster import configured_cluster, embedded_cluster
    from acker_cli.console import standard_error, standard_output
    from acker_cli.dashboard import check_dashboard_port, dashboard_served
    from acker_cli.errors import SettingsError
    from acker_cli.feeding import create_sources, feeding, feeds_of
    from acker_cli.interruption import interruptible
    from acker_cli.logs import log_to_stderr
    from acker_cli.metrics_server import check_port
    from acker_cli.running import RunPlan, prepare_cluster, run_component, run_topology, start_early
    from acker_cli.setting_layers import Flags, load
    from acker_cli.topology_reference import load_from_here
    from acker_cli.view import open_view

    loaded = load(Flags(config, bootstrap_servers, assigned(set_, {"metrics.port": metrics_port})))
    log_to_stderr(loaded.settings.log_level)
    topology = load_from_here(reference)
    plan = RunPlan.checked(
        topology, reference, component, processes or (), ackers if ackers is not None else int(local)
    )
    feeds = feeds_of(topology, feed or ())
    if feeds and not local:
        raise SettingsError("--feed fills topics of the embedded broker: add --local, or write to your cluster")
    check_port(loaded.settings.metrics)
    if dashboard:
        check_dashboard_port(loaded.settings.dashboard)
    with interruptible(is_service=True), ExitStack() as cleaning:
        if local:
            if component is None:
                start_early(plan)
            cluster = cleaning.enter_context(embedded_cluster(loaded, standard_error()))
        else:
            cluster = configured_cluster(loaded)
        prepare_cluster(cluster, topology.manifest, loaded.settings.topics.replication_factor, component)
        console = standard_output()
        if local:
            create_sources(cluster.kafka, topology)
            cleaning.enter_context(feeding(cluster.kafka, feeds, console))
        console.print(f"running {topology.name} on {cluster.bootstrap_servers}; Ctrl-C stops it", markup=False)
        if dashboard:
            served = cleaning.enter_context(dashboard_served(cluster.kafka, loaded.settings.dashboard, topology.name))
            console.print(f"dashboard at {served.address}", markup=False)
        view = cleaning.enter_context(open_view(console))
        if plan.needs_ackers:
            cleaning.enter_context(warned_without_ackers(cluster.kafka, topology.manifest))
        run_plan = run_topology if component is None else run_component
        run_plan(plan, cluster, loaded.settings, view)
