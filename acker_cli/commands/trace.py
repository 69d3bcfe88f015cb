"""`acker trace`."""

from typing import TYPE_CHECKING, Annotated

import typer

from acker_cli.options import ConfigOption, JsonOption, ServersOption, SetOption, examples, help_of

if TYPE_CHECKING:
    from inspection.trace.tree import Tree
    from inspection.trace_reader import TraceReader
    from kafka_clients.catalogue import Catalogue
    from tuple_tree.manifest import Manifest

_WHICH = "Which trees"


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(
        "trace",
        help=help_of(trace),
        epilog=examples(
            ("acker trace --oldest 1", "where the tree is stuck that is open for longest"),
            ("acker trace 3f2a9c04d1e87b65 --topology word-count", "a root that a log or a notice named"),
            ("acker trace --last-failed 3", "the trees that failed last, and what was open in them"),
            ("acker trace --message orders/4/120311", "every attempt at a message of a KafkaSpout or a Spark spout"),
            ("acker trace 3f2a9c04d1e87b65 --since 1d --json", "one of yesterday, for programs"),
        ),
    )(trace)


def trace(
    root: Annotated[
        str | None,
        typer.Argument(
            metavar="ROOT",
            help="Id of the tree: hexadecimal (with 0x, 16 digits or a letter in it), or decimal, signed or not.",
            show_default=False,
        ),
    ] = None,
    message: Annotated[
        str | None,
        typer.Option(
            metavar="SPOUT/PARTITION/OFFSET",
            help="A message of a KafkaSpout or a spout in Spark, by its place in the source; all attempts at it, or "
            "one with /ATTEMPT behind it. Roots of other spouts do not follow from their message ids.",
            show_default=False,
            rich_help_panel=_WHICH,
        ),
    ] = None,
    tuple_: Annotated[
        str | None,
        typer.Option(
            "--tuple",
            metavar="BOLT/TASK@OFFSET",
            help="The trees of a tuple in the inbox of a bolt, as logs, the doctor and this command name it.",
            show_default=False,
            rich_help_panel=_WHICH,
        ),
    ] = None,
    oldest: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="The N trees open for longest.", show_default=False, rich_help_panel=_WHICH
        ),
    ] = None,
    last_failed: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="The N trees whose failure was told last.",
            show_default=False,
            rich_help_panel=_WHICH,
        ),
    ] = None,
    topology: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Which topology; not needed if the cluster has only one.", show_default=False
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="WHEN",
            help="How far back to search: 90s, 10m, 2h or 1d, or from a time on, as 2026-03-01T12:00. Twice the "
            "largest tree age unless given.",
            show_default=False,
        ),
    ] = None,
    config: ConfigOption = None,
    bootstrap_servers: ServersOption = None,
    set_: SetOption = None,
    json_: JsonOption = False,
) -> None:
    """Show where a tuple tree is stuck: its tuples, who acked them, what is open, and a verdict.

    The root's inits, acks and fails are looked for in the ack log, its tuples in the inboxes of the bolts, by the ids
    in their headers. Nothing is written, and no consumer group is joined.
    """
    import time

    from acker_cli.cluster import configured_cluster
    from acker_cli.console import print_json, standard_error, standard_output
    from acker_cli.errors import SettingsError
    from acker_cli.setting_layers import Flags, load
    from acker_cli.slow_progress import slow_progress
    from acker_cli.trace_view import print_trees
    from inspection.moments import since_ms
    from inspection.trace.as_json import tree_as_json
    from inspection.trace.roots import parse_root
    from inspection.trace_reader import TraceReader
    from kafka_clients.catalogue import Catalogue

    if sum(each is not None for each in (root, message, tuple_, oldest, last_failed)) != 1:
        raise SettingsError("say which trees: give one of ROOT, --message, --tuple, --oldest and --last-failed")
    wanted = None if root is None else parse_root(root)
    asked = None if since is None else since_ms(since, time.time_ns() // 1_000_000)
    kafka = configured_cluster(load(Flags(config, bootstrap_servers, set_ or ()))).kafka
    with standard_error().status("asking the cluster …"):
        manifest = _traced(Catalogue(kafka), topology)
    with slow_progress(standard_error()) as progress, TraceReader(kafka, manifest, progress) as reader:
        begin = reader.now_ms - reader.usual_since_ms if asked is None else asked
        trees = _trees(reader, wanted, message, tuple_, oldest, last_failed, begin)
    if json_:
        print_json({"topology": manifest.topology, "trees": [tree_as_json(tree) for tree in trees]})
    elif trees:
        print_trees(standard_output(), manifest.topology, trees)
    else:
        standard_output().print(
            f"{manifest.topology} has no open trees"
            if oldest
            else f"no tree of {manifest.topology} failed in that time"
        )


def _traced(catalogue: "Catalogue", name: str | None) -> "Manifest":
    """The topology that is meant.

    Raises:
        SettingsError: if it is not clear which is meant.
        UnknownTopologyError: if there is none of that name.
    """
    from acker_cli.errors import SettingsError
    from kafka_clients.errors import UnknownTopologyError

    if name is None:
        published = catalogue.manifests()
        if not published:
            raise UnknownTopologyError("", [])
        if len(published) > 1:
            there = ", ".join(sorted(published))
            raise SettingsError(f"say which topology is meant, with --topology NAME: the cluster has {there}")
        (name,) = published
    return catalogue.manifest(name)


def _trees(
    reader: "TraceReader",
    root: int | None,
    message: str | None,
    tuple_: str | None,
    oldest: int | None,
    last_failed: int | None,
    since_ms: int,
) -> "list[Tree]":
    if root is not None:
        return reader.trees([root], since_ms)
    if message is not None:
        return reader.trees(reader.roots_of_message(message), since_ms, any_of=True, called=f"message {message}")
    if tuple_ is not None:
        return reader.trees(reader.roots_of_tuple(tuple_), since_ms, called=f"tuple {tuple_}")
    if oldest is not None:
        return reader.oldest_trees(oldest, since_ms)
    return reader.last_failed_trees(last_failed or 0, since_ms)
