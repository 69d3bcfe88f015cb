"""`acker spark`."""

import os
from pathlib import Path

import typer

from acker_cli.commands.options import METRICS_PORT, REFERENCE, command, flag, load_from_here, option
from acker_cli.settings import LoadedSettings


@command(
    "submit",
    ("acker spark submit my_module:topology --component lines", "a spout, in Spark on this machine"),
    ("acker spark submit my_module:topology --component split", "a bolt, in the same way"),
    (
        "acker spark submit my_module:topology --component split --available-now",
        "the records that are in the topics now, as from cron",
    ),
    (
        "acker spark submit my_module:topology --component split --master yarn --checkpoint hdfs:///split",
        "on a cluster; arguments for spark-submit follow after --",
    ),
    flags={"metrics.port": (int | None, METRICS_PORT)},
    extra=True,
)
def submit(
    loaded: LoadedSettings,
    context: typer.Context,
    reference: str = REFERENCE,
    component: str = option("NAME", "The spout or bolt to run, one with external=True.", default=...),
    master: str = option("URL", "Spark's master.", default="local[*]"),
    checkpoint: str | None = option(
        "DIR", "Where Spark keeps its checkpoint; checkpoints/TOPOLOGY.NAME here if the master is local."
    ),
    max_rows: int | None = option(
        None, "Rows of a micro-batch, at most; 0 for all, or as many as max_spout_pending allows.", min=0
    ),
    available_now: bool = flag(
        "--available-now",
        "Process the records that are there and end; a spout when every tree has its outcome.",
    ),
    dry_run: bool = flag("--dry-run", "Print the spark-submit command without running it."),
) -> None:
    """Run a spout or a bolt of a topology in Spark until Ctrl-C or SIGTERM.

    The code was passed to set_spout or set_bolt with external=True: a spout's topic, or a function source(spark)
    that returns a topic, a streaming DataFrame or a spark_jobs.Source; a bolt's function transform(rows).

    It prints a line for each micro-batch. A stop waits for the micro-batch that is being written; the next start with
    the same checkpoint continues after it. The driver also stops when this command is killed. Arguments after -- are
    for spark-submit.
    """
    import shlex

    from acker_cli.console import standard_error
    from acker_cli.errors import CliError, SettingsError
    from acker_cli.interruption import interruptible
    from acker_cli.processes.metrics_server import check_port

    _check_pyspark()
    from local_kafka.distribution import cache_root
    from spark_jobs.class_archive import archive_in
    from spark_jobs.components import declared
    from spark_jobs.submit import SubmitPlan, submission

    topology = load_from_here(reference)
    declared(topology, component)
    name = f"{topology.name}.{component}"
    if checkpoint is None and not master.startswith("local"):
        raise SettingsError("a cluster needs --checkpoint, a directory that all its machines can read")
    metrics = loaded.settings.metrics
    if master.startswith("local") and not dry_run:
        check_port(metrics)
    driver = [
        *(() if max_rows is None else ("--max-rows", str(max_rows))),
        *(("--available-now",) if available_now else ()),
        *(() if metrics.port is None else ("--metrics", f"{metrics.host}:{metrics.port}")),
    ]
    checkpoint = checkpoint or str(Path("checkpoints", name).absolute())
    archive = archive_in(cache_root(os.environ))
    plan = SubmitPlan(
        *(reference, component, name, checkpoint, master, tuple(context.args), tuple(driver)),
        archive=archive if archive.exists() else None,
    )
    if dry_run:
        typer.echo(shlex.join(plan.line()))
        return
    kafka = loaded.cluster()
    standard_error().print(f"running {name} in Spark at {master}; Ctrl-C stops it")
    with interruptible(is_service=True), submission(plan, kafka) as process:
        code = process.wait()
        if code:
            raise CliError(f"the Spark job of {name} ended with exit code {code}: see the log above")


@command(
    "prepare",
    ("acker spark prepare", "once on a machine, and again after an update of PySpark or Java"),
    servers=False,
)
def prepare() -> None:
    """Make an archive of Java classes, with which drivers on this machine start faster.

    Runs a small query in Spark for half a minute, and keeps an archive of the Java classes that it loads: 160 MB in
    ~/.cache/kafka-acker, or where XDG_CACHE_HOME says. Drivers that acker spark submit starts here use it.
    """
    from acker_cli.console import standard_error
    from acker_cli.interruption import interruptible

    _check_pyspark()
    from local_kafka.distribution import cache_root
    from spark_jobs.class_archive import archive_in, make_archive

    archive, error = archive_in(cache_root(os.environ)), standard_error()
    with interruptible(), error.status("running a query in Spark; takes about half a minute"):
        make_archive(archive)
    error.print(f"made {archive}", soft_wrap=True)


def _check_pyspark() -> None:
    from importlib.util import find_spec

    from acker_cli.errors import CliError

    if find_spec("pyspark") is None:
        raise CliError(
            "PySpark is not installed: pip install 'kafka-acker[spark]', or from a wheel pip install './WHEEL[spark]'"
        )
