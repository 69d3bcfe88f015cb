"""`acker spark`."""

from pathlib import Path
from typing import Annotated

import typer

from acker_cli.options import ConfigOption, ServersOption, SetOption, TopologyArgument, examples, help_of


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    group = typer.Typer(no_args_is_help=True, help="Run components of a topology in Apache Spark.")
    # A group of one command would otherwise become that command.
    group.callback()(lambda: None)
    group.command(
        "submit",
        help=help_of(submit),
        context_settings={"allow_extra_args": True},
        epilog=examples(
            ("acker spark submit my_module:topology --component split", "in a Spark of its own on this machine"),
            (
                "acker spark submit my_module:topology --component split --master yarn --checkpoint hdfs:///split",
                "on a cluster; arguments for spark-submit follow after --",
            ),
        ),
    )(submit)
    app.add_typer(group, name="spark")


def submit(
    context: typer.Context,
    reference: TopologyArgument,
    component: Annotated[
        str, typer.Option(metavar="NAME", help="The bolt to run, one with external=True.", show_default=False)
    ],
    master: Annotated[str, typer.Option(metavar="URL", help="Spark's master.")] = "local[*]",
    checkpoint: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="Where Spark keeps how far it is; checkpoints/TOPOLOGY.NAME here if the master is local.",
            show_default=False,
        ),
    ] = None,
    max_rows: Annotated[
        int | None, typer.Option(min=0, help="Rows of a micro-batch, at most; 0 for all.", show_default=False)
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the spark-submit line, and do nothing.")] = False,
    config: ConfigOption = None,
    bootstrap_servers: ServersOption = None,
    set_: SetOption = None,
) -> None:
    """Run a bolt of a topology in Spark until Ctrl-C.

    Its function, given to set_bolt with external=True, transforms rows. Arguments after -- go to spark-submit.
    """
    import shlex

    from acker_cli.cluster import configured_cluster
    from acker_cli.console import standard_error
    from acker_cli.errors import CliError, SettingsError
    from acker_cli.interruption import interruptible
    from acker_cli.setting_layers import Flags, load
    from acker_cli.topology_reference import load_from_here
    from spark_jobs.submit import Submission, SubmitPlan

    loaded = load(Flags(config, bootstrap_servers, set_ or ()))
    topology = load_from_here(reference)
    try:
        found = topology.manifest.component(component)
    except ValueError as error:
        raise SettingsError(f"{error}; name one of these with --component") from None
    if not found.external:
        raise SettingsError(f"{component!r} is run by acker run: add it with external=True to run it in Spark")
    name = f"{topology.name}.{component}"
    if checkpoint is None and not master.startswith("local"):
        raise SettingsError("a cluster needs --checkpoint, a directory that all its machines see")
    plan = SubmitPlan(
        reference,
        component,
        name,
        checkpoint or str(Path("checkpoints", name).absolute()),
        master,
        tuple(context.args),
        () if max_rows is None else ("--max-rows", str(max_rows)),
    )
    if dry_run:
        typer.echo(shlex.join(plan.line()))
        return
    cluster = configured_cluster(loaded)
    standard_error().print(f"running {name} in Spark at {master}; Ctrl-C stops it", markup=False)
    with interruptible(is_service=True), Submission(plan, cluster.kafka) as submission:
        code = submission.wait()
        if code:
            raise CliError(f"the Spark job of {name} ended with exit code {code}: the lines above say why")
