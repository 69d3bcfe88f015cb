"""`acker demo`."""

import typer

from acker_cli.commands.options import command, flag, option
from acker_cli.settings import LoadedSettings


@command(
    "demo",
    ("acker demo", "everything goes well"),
    ("acker demo --fail-rate 0.02 --kill", "with failures and kills; the counts still match"),
    ("acker demo --lines 5000", "the beginning of the text, for a slow machine"),
    ("acker demo --json 2>/dev/null", "only the result, as JSON"),
    ("acker demo --bootstrap-servers localhost:9092", "on your own cluster, which is left as it was"),
)
def demo(
    loaded: LoadedSettings,
    fail_rate: float = option(
        None,
        "Share of counted words that fail at random, so that their lines are replayed.",
        default=0.0,
        min=0,
        max=0.5,
    ),
    kill: bool = flag("--kill", "Kill an acker worker and a worker process with SIGKILL during the run."),
    seed: int = option(None, "The seed of all random numbers.", default=0),
    deadline: float = option(None, "Seconds after which the command fails.", default=300.0, min=1),
    lines: int | None = option(None, "Count only the first N lines.", min=1),
    json_: bool = flag("--json", "Print the result as one JSON object, last."),
) -> None:
    """Count the words of two novels through a real Kafka, follow every line, and compare with a plain count.

    A spout reads the lines from a topic, two steps split and count, acker workers follow each line's tuple tree, and
    the spout replays what fails. Starts an embedded broker unless a cluster is set. Exit code 0 only if every line was
    acked and the counts match.
    """
    import secrets
    from contextlib import ExitStack

    from acker_cli.cluster.local import embedded_kafka
    from acker_cli.console import log_to_stderr, print_json, standard_error, standard_output
    from acker_cli.demo.session import DemoOptions, run_demo
    from acker_cli.demo.word_count import Parameters
    from acker_cli.interruption import interruptible
    from acker_cli.views.live import open_view
    from kafka_clients.catalogue import Catalogue

    settings = loaded.settings
    # Unless asked for, only what is wrong: the view shows the rest.
    log_level = settings.log_level if "log_level" in loaded.origins else "error"
    log_to_stderr(log_level, brief=True)
    console = standard_error() if json_ else standard_output()
    with interruptible(), ExitStack() as cleaning:
        view = cleaning.enter_context(open_view(console))
        name = "word-count" if settings.is_embedded else f"word-count-{secrets.token_hex(4)}"
        parameters = Parameters(name, fail_rate=fail_rate, seed=seed, lines=lines or 0)
        options = DemoOptions(parameters, kill, deadline, log_level, settings)
        plan = options.plan()
        if settings.is_embedded:
            view.note("starting Apache Kafka …")
            _, kafka = cleaning.enter_context(embedded_kafka(loaded, view.progress))
        else:
            kafka = loaded.cluster()
            Catalogue(kafka).reach()
        view.note(f"counting words as topology {name} on {kafka['bootstrap.servers']}")
        report = run_demo(kafka, plan, options, view)
    for line in report.in_words():
        console.print(line)
    if json_:
        print_json(report.to_json())
    if not report.is_right:
        raise typer.Exit(1)
