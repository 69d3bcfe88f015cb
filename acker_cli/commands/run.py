"""`acker run`."""

from acker_cli.commands.options import METRICS_PORT, REFERENCE, command, flag, load_from_here, option
from acker_cli.settings import LoadedSettings


@command(
    "run",
    ("acker run my_module:topology --local", "everything on this machine, broker and ackers included"),
    ("acker run my_module:topology --local --processes 4", "in four worker processes"),
    ("acker run my_module:topology --local --feed clicks=clicks.jsonl", "a file as the messages of a topic"),
    ("acker run my_module:topology --local --reload", "and start again after each change of the code"),
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
    reload: bool = flag("--reload", "With --local: start the processes again when a module of this directory changes."),
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
    from pathlib import Path

    from acker_cli.cluster.local import create_topics, embedded_kafka, feeding, feeds_of
    from acker_cli.commands.dashboard import check_dashboard_port, dashboard_served
    from acker_cli.console import log_to_stderr, standard_output
    from acker_cli.errors import SettingsError
    from acker_cli.interruption import interruptible
    from acker_cli.processes.control_watch import ControlWatch
    from acker_cli.processes.metrics_server import Health, check_port, metrics_served
    from acker_cli.processes.reloading import SourceWatch, run_reloading
    from acker_cli.processes.running import (
        RunPlan,
        check_cluster,
        run_component,
        run_topology,
        warned_without_ackers,
    )
    from acker_cli.views.live import open_view

    log_to_stderr(loaded.settings.log_level)
    if reload and (not local or component):
        raise SettingsError("--reload is for the development of a whole topology: add --local, without --component")
    watch = SourceWatch(Path.cwd(), load_from_here)

    def load() -> RunPlan:
        topology = watch.load(reference) if reload else load_from_here(reference)
        return RunPlan.checked(topology, reference, component, processes, ackers if ackers is not None else int(local))

    first = load()
    feeds = feeds_of(first.topology, feed or ())
    if feeds and not local:
        raise SettingsError("--feed fills topics of the embedded broker: add --local, or write to your cluster")
    check_port(loaded.settings.metrics)
    if dashboard:
        check_dashboard_port(loaded.settings.dashboard)
    with interruptible(is_service=True), ExitStack() as cleaning:
        view = cleaning.enter_context(open_view(standard_output()))
        if local:
            _, kafka = cleaning.enter_context(embedded_kafka(loaded, view.progress))
            create_topics(kafka, first.topology, loaded.settings.topics.replication_factor)
            cleaning.enter_context(feeding(kafka, feeds, view.console))
        else:
            kafka = loaded.cluster()
            check_cluster(kafka, first.topology.manifest, component, force=force)
        if local and not loaded.settings.is_embedded:
            view.note("--local: runs on an embedded broker, not on the cluster of kafka.bootstrap.servers")
        if dashboard:
            served = cleaning.enter_context(dashboard_served(kafka, loaded.settings.dashboard, first.topology.name))
            view.note(f"dashboard at {served.address}")

        def run_plan(plan: RunPlan) -> bool:
            """Runs until the topology is stopped, or its code has changed; returns whether it is stopped."""
            name, manifest = plan.topology.name, plan.topology.manifest
            if plan is not first:
                create_topics(kafka, plan.topology, loaded.settings.topics.replication_factor)
            view.note(f"running {name} on {kafka['bootstrap.servers']}; Ctrl-C stops it")
            for bolt, guarantee in plan.guarantees.items():
                view.note(f"state of {bolt}: {guarantee}")
            head = component or next(each.name for each in manifest.heads if not each.external)
            with ExitStack() as running:
                if plan.needs_ackers:
                    running.enter_context(warned_without_ackers(kafka, manifest))
                control = running.enter_context(ControlWatch(name, head, kafka))
                # Probes are answered meanwhile: Kubernetes would kill what waits, with longer and longer pauses.
                control.await_start(view.note, metrics_served(loaded.settings.metrics, (), Health(dict)))
                if component is not None:
                    run_component(plan, kafka, loaded.settings, view, control)
                else:
                    changed = watch.has_changed if reload else lambda: False
                    run_topology(plan, kafka, loaded.settings, view, control, changed)
                if control.is_stopped:
                    view.note(f"{name} is stopped")
                return control.is_stopped

        if reload:
            run_reloading(watch, first, load, run_plan, view.note)
        else:
            run_plan(first)
