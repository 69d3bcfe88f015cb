"""`acker run`."""

from acker_cli.commands.options import METRICS_PORT, REFERENCE, command, flag, load_from_here, option
from acker_cli.settings import LoadedSettings


@command(
    "run",
    ("acker run my_module:topology --local", "everything on this machine, broker and ackers included"),
    ("acker run my_module:topology --local --processes 4", "in four worker processes"),
    ("acker run my_module:topology --local --feed clicks=clicks.jsonl", "a file as the messages of a topic"),
    ("acker run my_module:topology --local --dashboard", "and its graph and figures in the browser"),
    ("acker run my_module:topology --component split", "one component on your cluster, as in a container"),
    ("acker run my_module:topology --ackers 2", "all components on your cluster, and two acker workers"),
    flags={"metrics.port": (int | None, METRICS_PORT)},
)
def run(
    loaded: LoadedSettings,
    reference: str = REFERENCE,
    component: str | None = option("NAME", "Run only this component, in this process."),
    local: bool = flag("--local", "Start an embedded broker and an acker worker as well."),
    ackers: int | None = option(None, "Acker workers to start; 1 with --local, else 0.", min=0),
    processes: int | None = option("N", "Worker processes, by default as many as the machine has cores.", min=1),
    feed: list[str] | None = option(
        "TOPIC=FILE",
        "With --local: write each line of a file, or - for standard input, into a source topic; repeatable.",
    ),
    force: bool = flag("--force", "Run even if the published manifest has other streams or groupings than the code."),
    dashboard: bool = flag(
        "--dashboard", "Serve the dashboard as well, at the address in the settings of [bold]acker dashboard[/]."
    ),
) -> None:
    """Run a topology until Ctrl-C, or acker topologies stop.

    Worker processes run tasks of all components, and are started again if they end. Modules are found from the working
    directory. With --local the topics that the spouts read are created.
    """
    from contextlib import ExitStack

    from acker_cli.cluster.local import create_topics, embedded_kafka, feeding, feeds_of
    from acker_cli.commands.dashboard import check_dashboard_port, dashboard_served
    from acker_cli.console import log_to_stderr, standard_output
    from acker_cli.errors import SettingsError
    from acker_cli.interruption import interruptible
    from acker_cli.processes.control_watch import ControlWatch
    from acker_cli.processes.metrics_server import Health, check_port, metrics_served
    from acker_cli.processes.running import (
        RunPlan,
        check_cluster,
        run_component,
        run_topology,
        warned_without_ackers,
    )
    from acker_cli.views.live import open_view

    log_to_stderr(loaded.settings.log_level)
    topology = load_from_here(reference)
    plan = RunPlan.checked(topology, reference, component, processes, ackers if ackers is not None else int(local))
    feeds = feeds_of(topology, feed or ())
    if feeds and not local:
        raise SettingsError("--feed fills topics of the embedded broker: add --local, or write to your cluster")
    check_port(loaded.settings.metrics)
    if dashboard:
        check_dashboard_port(loaded.settings.dashboard)
    with interruptible(is_service=True), ExitStack() as cleaning:
        view = cleaning.enter_context(open_view(standard_output()))
        if local:
            _, kafka = cleaning.enter_context(embedded_kafka(loaded, view.progress))
            create_topics(kafka, topology, loaded.settings.topics.replication_factor)
            cleaning.enter_context(feeding(kafka, feeds, view.console))
        else:
            kafka = loaded.cluster()
            check_cluster(kafka, topology.manifest, component, force=force)
        if local and not loaded.settings.is_embedded:
            view.note("--local: runs on an embedded broker, not on the cluster of kafka.bootstrap.servers")
        view.note(f"running {topology.name} on {kafka['bootstrap.servers']}; Ctrl-C stops it")
        for bolt, guarantee in plan.guarantees.items():
            view.note(f"state of {bolt}: {guarantee}")
        if dashboard:
            served = cleaning.enter_context(dashboard_served(kafka, loaded.settings.dashboard, topology.name))
            view.note(f"dashboard at {served.address}")
        if plan.needs_ackers:
            cleaning.enter_context(warned_without_ackers(kafka, topology.manifest))
        first = component or next(each.name for each in topology.manifest.heads if not each.external)
        control = cleaning.enter_context(ControlWatch(topology.name, first, kafka))
        # Probes are answered meanwhile: Kubernetes would kill what waits, with longer and longer pauses between.
        control.await_start(view.note, metrics_served(loaded.settings.metrics, (), Health(dict)))
        run_plan = run_topology if component is None else run_component
        run_plan(plan, kafka, loaded.settings, view, control)
        if control.is_stopped:
            view.note(f"{topology.name} is stopped")
