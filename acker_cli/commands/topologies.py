"""`acker topologies`."""

import typer

from acker_cli.commands.options import JSON, argument, command, flag
from acker_cli.console import print_json, standard_error, standard_output
from acker_cli.errors import RemovalError, SettingsError
from acker_cli.settings import LoadedSettings

_NAME = argument("NAME", "The topology's name in acker.topologies.")


@command(
    "list",
    ("acker topologies list", "all topologies, and who works for them"),
    ("acker topologies list --json", "the same for programs"),
)
def list_(loaded: LoadedSettings, json_: bool = JSON) -> None:
    """List the topologies that are published in acker.topologies.

    Of each, how many of its topics are there, how many acker workers serve it, how many ack batches they have not
    committed yet, and how many tuples wait for its bolts. A dash stands for what is not known.
    """
    from acker_cli.cluster.connection import configured_kafka
    from acker_cli.views.topologies import listed, print_list
    from inspection.topology_status import ClusterStatus
    from kafka_clients.catalogue import Catalogue
    from tuple_tree.manifest import Manifest

    kafka = configured_kafka(loaded)
    with standard_error().status("asking the cluster …"):
        catalogue = Catalogue(kafka)
        published = dict(sorted(catalogue.manifests().items()))
        readable = [manifest for manifest in published.values() if isinstance(manifest, Manifest)]
        known = {status.manifest.topology: status for status in ClusterStatus(kafka).of(readable, catalogue.topics())}
    statuses = {name: known.get(name) or str(what) for name, what in published.items()}
    if json_:
        print_json({"topologies": listed(statuses)})
    else:
        print_list(standard_output(), statuses)


@command(
    "show",
    ("acker topologies show word-count", "its components, and how far its topics are read"),
    ("acker topologies show word-count --json", "the same for programs, partition by partition"),
)
def show(loaded: LoadedSettings, name: str = _NAME, json_: bool = JSON) -> None:
    """Show a topology: its components and how they are connected, and how far its topics are read.

    Exit code 1 if a topic is missing or has another number of partitions than the manifest says.
    """
    from acker_cli.cluster.connection import configured_kafka
    from acker_cli.views.topologies import print_shown, shown
    from inspection.topology_status import ClusterStatus
    from kafka_clients.catalogue import Catalogue

    kafka = configured_kafka(loaded)
    with standard_error().status("asking the cluster …"):
        catalogue = Catalogue(kafka)
        (status,) = ClusterStatus(kafka).of([catalogue.manifest(name)], catalogue.topics())
    if json_:
        print_json(shown(status))
    else:
        print_shown(standard_output(), status)
    if any(topic.problem for topic in status.topics):
        raise typer.Exit(1)


@command(
    "delete",
    ("acker topologies delete word-count", "says what it deletes, and asks"),
    ("acker topologies delete word-count --yes", "without the prompt, as in a script"),
    ("acker topologies delete word-count --keep-topics", "only lets the acker workers go"),
)
def delete(
    loaded: LoadedSettings,
    name: str = _NAME,
    yes: bool = flag("--yes", "Skip the prompt."),
    force: bool = flag("--force", "Delete it even if its components or acker workers are at work."),
    keep_topics: bool = flag("--keep-topics", "Only withdraw the manifest; keep topics and consumer groups."),
    json_: bool = JSON,
) -> None:
    """Delete a topology: its manifest, its consumer groups and its topics, with all that they hold.

    Processes of its components must have ended. Acker workers that serve all topologies let go of it by themselves;
    those started for it alone must be stopped. Spark jobs are not seen: stop them before.

    A deletion that was interrupted is repeated with the same command, which deletes what is left.
    """
    import sys

    from acker_cli.cluster.connection import configured_kafka
    from acker_cli.cluster.removal import Removal, remains_of
    from acker_cli.views.topologies import to_be_deleted
    from kafka_clients.catalogue import Catalogue
    from kafka_clients.errors import UnknownTopologyError
    from tuple_tree.names import check_name

    kafka = configured_kafka(loaded)
    progress = standard_error() if json_ else standard_output()
    catalogue = Catalogue(kafka)
    manifests = catalogue.manifests()
    remains = remains_of(check_name("topology", name), manifests, catalogue.topics())
    if not remains or (keep_topics and not remains.is_published):
        raise UnknownTopologyError(name, sorted(manifests))
    removal = Removal(kafka, remains, lambda line: progress.print(line))
    if not force:
        removal.check_unused()
    if not yes:
        for line in to_be_deleted(remains, keep_topics=keep_topics):
            progress.print(line)
        if not sys.stdin.isatty():
            raise SettingsError("standard input is no terminal, so there is no prompt: --yes deletes without asking")
        if not typer.confirm("Delete all that?", err=json_):
            raise RemovalError(f"topology {name} was not deleted")
    removal.withdraw(force=force)
    left = [] if keep_topics else removal.delete()
    if json_:
        groups, topics = ((), ()) if keep_topics else (remains.groups, remains.topics)
        withdrawn = remains.is_published
        print_json({"topology": name, "withdrawn": withdrawn, "groups": groups, "topics": topics, "left": left})
    if left and not force:
        raise RemovalError(f"not deleted: {'; '.join(left)}. Repeat this command")
    for one in left:
        standard_error().print(f"not deleted: {one}")
