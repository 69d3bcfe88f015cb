"""`acker trace`."""

from acker_cli.commands.options import JSON, argument, command, flag, only_topology, option
from acker_cli.settings import LoadedSettings

_WHICH = "Which trees"


@command(
    "trace",
    ("acker trace --oldest 1", "where the tree is stuck that is open for longest"),
    ("acker trace 3f2a9c04d1e87b65 --topology word-count", "a root that a log or a notice named"),
    ("acker trace --last-failed 3", "the trees that failed last, and their open tuples"),
    ("acker trace --message orders/4/120311", "every attempt at a message of a KafkaSpout or a Spark spout"),
    ("acker trace 3f2a9c04d1e87b65 --since 1d --json", "one of yesterday, for programs"),
    (
        "OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318 acker trace --last-failed 20 --otlp",
        "to a collector of OpenTelemetry",
    ),
)
def trace(
    loaded: LoadedSettings,
    root: str | None = argument(
        "ROOT", "Id of the tree: hexadecimal (with 0x, 16 digits or a letter in it), or decimal, signed or not.", None
    ),
    message: str | None = option(
        "SPOUT/PARTITION/OFFSET",
        "A message of a KafkaSpout or a spout in Spark, by its place in the source; all attempts at it, or "
        "one with /ATTEMPT after it. Roots of other spouts do not follow from their message ids.",
        rich_help_panel=_WHICH,
    ),
    tuple_: str | None = option(
        "BOLT/TASK@OFFSET",
        "The trees of a tuple in the inbox of a bolt, as logs, the doctor and this command name it.",
        "--tuple",
        rich_help_panel=_WHICH,
    ),
    oldest: int | None = option("N", "The N trees open for longest.", min=1, rich_help_panel=_WHICH),
    last_failed: int | None = option(
        "N", "The N trees whose failure was reported last.", min=1, rich_help_panel=_WHICH
    ),
    topology: str | None = option("NAME", "The topology; not needed if the cluster has only one."),
    since: str | None = option(
        "WHEN",
        "How far back to search: 90s, 10m, 2h or 1d, or from a time on, as 2026-03-01T12:00. Twice the "
        "largest tree age unless given.",
    ),
    json_: bool = JSON,
    otlp: bool = flag("--otlp", "Send the trees to OpenTelemetry, to OTEL_EXPORTER_OTLP_ENDPOINT over HTTP."),
) -> None:
    r"""Show where a tuple tree is stuck: its tuples, the tasks that acked them, what is open, and a verdict.

    It reads the root's inits, acks and fails from the ack log, and its tuples, by their headers, from the inboxes.
    Nothing is written, and no consumer group is joined.

    With --otlp a tree becomes a trace of OpenTelemetry, and a tuple a span from when it was emitted to its last ack.
    Needs the extra otel: pip install "kafka-acker\[otel]".
    """
    import time

    from acker_cli.console import print_json, slow_progress, standard_error, standard_output
    from acker_cli.errors import SettingsError
    from acker_cli.views.trace import print_trees
    from inspection.notation import parse_root, since_ms
    from inspection.trace.output import tree_as_json
    from inspection.trace_reader import TraceReader
    from kafka_clients.catalogue import Catalogue

    if sum(each is not None for each in (root, message, tuple_, oldest, last_failed)) != 1:
        raise SettingsError("say which trees: give one of ROOT, --message, --tuple, --oldest and --last-failed")
    if otlp:
        # An error without OpenTelemetry, before the search.
        from inspection.otel import send_trees
    wanted = 0 if root is None else parse_root(root)
    asked = None if since is None else since_ms(since, time.time_ns() // 1_000_000)
    kafka = loaded.cluster()
    with standard_error().status("asking the cluster …"):
        catalogue = Catalogue(kafka)
        manifest = catalogue.manifest(
            topology or only_topology(catalogue.manifests(), " is meant, with --topology NAME")
        )
    with slow_progress(standard_error()) as progress, TraceReader(kafka, manifest, progress) as reader:
        begin = reader.usual_since_ms if asked is None else asked
        if root is not None:
            trees = reader.trees([wanted], begin)
        elif message is not None:
            trees = reader.trees(reader.roots_of_message(message), begin, any_of=True, called=f"message {message}")
        elif tuple_ is not None:
            trees = reader.trees(reader.roots_of_tuple(tuple_), begin, called=f"tuple {tuple_}")
        elif oldest is not None:
            trees = reader.oldest_trees(oldest, begin)
        else:
            trees = reader.last_failed_trees(last_failed or 0, begin)
    printed = [tree_as_json(tree) for tree in trees]
    if otlp:
        with standard_error().status("sending spans …"):
            sent = send_trees(manifest.topology, printed)
        standard_output().print(f"sent {sent:,} spans of {len(trees):,} trees")
    elif json_:
        print_json({"topology": manifest.topology, "trees": printed})
    elif trees:
        print_trees(standard_output(), manifest.topology, trees)
    else:
        nothing = "{} has no open trees" if oldest else "no tree of {} failed in that time"
        standard_output().print(nothing.format(manifest.topology))
