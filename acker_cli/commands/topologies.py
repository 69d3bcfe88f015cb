"""`acker topologies`."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import typer

from acker_cli.commands.options import JSON, argument, command, flag
from acker_cli.console import confirm, print_json, print_table, standard_error, standard_output
from acker_cli.errors import CliError
from acker_cli.settings import LoadedSettings

if TYPE_CHECKING:
    from rich.text import Text

    from acker_cli.cluster.removal import TopologyResources
    from inspection.state_figures import StateFigures
    from inspection.topic_status import TopicStatus, TopologyStatus
    from tuple_tree.components import Component
    from tuple_tree.control import Control
    from tuple_tree.manifest import Manifest

_NAME = argument("NAME", "The topology's name in acker.topologies.")
_STATS_SECONDS: Final = 10.0
"""How old the statistics of a process may be, in seconds."""


@command(
    "list",
    ("acker topologies list", "all topologies, and their acker workers"),
    ("acker topologies list --json", "the same for programs"),
)
def list_(loaded: LoadedSettings, json_: bool = JSON) -> None:
    """List the topologies that are published in acker.topologies.

    For each topology: its requested state, the number of its topics that exist, the number of acker workers that serve
    it, their lag in ack batches, and the lag of its bolts in records. A dash means that the value is not known.
    """
    from inspection.topology_status import ClusterStatus
    from tuple_tree.manifest import Manifest

    cluster = ClusterStatus(loaded.cluster())
    with standard_error().status("asking the cluster …"):
        published = dict(sorted(cluster.catalogue.manifests().items()))
        readable = [manifest for manifest in published.values() if isinstance(manifest, Manifest)]
        known = {status.manifest.topology: status for status in cluster.of(readable, cluster.catalogue.topics())}
        controls = cluster.catalogue.controls()
    statuses = {name: known.get(name) or str(what) for name, what in published.items()}
    states = {name: controls[name].state if name in controls else "running" for name in statuses}
    if json_:
        print_json({"topologies": [_listed(name, states[name], status) for name, status in statuses.items()]})
    else:
        _print_list(statuses, states)


@command(
    "show",
    ("acker topologies show word-count", "its components, and the lags of its topics"),
    ("acker topologies show word-count --json", "the same for programs, partition by partition"),
)
def show(loaded: LoadedSettings, name: str = _NAME, json_: bool = JSON) -> None:
    """Show a topology: its components, their subscriptions, states, and the lags of its topics.

    Exit code 1 if a topic is missing or has another number of partitions than the manifest says.
    """
    from inspection.topology_status import ClusterStatus
    from tuple_tree.control import Control

    cluster = ClusterStatus(loaded.cluster())
    with standard_error().status("asking the cluster …"):
        manifest = cluster.catalogue.manifest(name)
        (status,) = cluster.of([manifest], cluster.catalogue.topics())
        sources = cluster.sources(manifest)
        states = _states(loaded, manifest)
        control = cluster.catalogue.controls().get(name, Control())
    if json_:
        print_json(_as_json(status, sources, states, control))
    else:
        _print_status(status, sources, states, control)
    if any(topic.problem for topic in status.topics):
        raise typer.Exit(1)


@command(
    "delete",
    ("acker topologies delete word-count", "lists what it deletes, and asks"),
    ("acker topologies delete word-count --yes", "without the prompt, as in a script"),
    ("acker topologies delete word-count --keep-topics", "deletes the manifest alone: acker workers stop serving it"),
)
def delete(
    loaded: LoadedSettings,
    name: str = _NAME,
    yes: bool = flag("--yes", "Skip the prompt."),
    force: bool = flag("--force", "Delete it even if its components or acker workers are running."),
    keep_topics: bool = flag("--keep-topics", "Only withdraw the manifest; keep topics and consumer groups."),
    json_: bool = JSON,
) -> None:
    """Delete a topology: its manifest, its consumer groups, and its topics with all data.

    Stop the processes of its components first, also Spark jobs, which the command does not detect, and acker workers
    that serve only this topology. Acker workers of all topologies stop serving it by themselves.

    Repeat an interrupted deletion with the same command.
    """
    from acker_cli.cluster.removal import Removal, resources_of
    from inspection.topology_status import ClusterStatus
    from kafka_clients.errors import UnknownTopologyError
    from tuple_tree.names import check_name

    cluster = ClusterStatus(loaded.cluster())
    progress = standard_error() if json_ else standard_output()
    manifests = cluster.catalogue.manifests()
    resources = resources_of(check_name("topology", name), manifests, cluster.catalogue.topics())
    if not resources or (keep_topics and not resources.is_published):
        raise UnknownTopologyError(name, sorted(manifests))
    removal = Removal(cluster, resources, progress.print)
    if not force:
        removal.check_unused()
    if not yes:
        for line in _to_be_deleted(resources, keep_topics=keep_topics):
            progress.print(line)
        confirm("Delete all that?", f"topology {name} was not deleted", on_stderr=json_)
    removal.withdraw(force=force)
    left = [] if keep_topics else removal.delete()
    if json_:
        groups, topics = ((), ()) if keep_topics else (resources.groups, resources.topics)
        withdrawn = resources.is_published
        print_json({"topology": name, "withdrawn": withdrawn, "groups": groups, "topics": topics, "left": left})
    if left and not force:
        raise CliError(f"not deleted: {'; '.join(left)}. Repeat this command")
    for one in left:
        standard_error().print(f"not deleted: {one}")


def _print_list(statuses: "Mapping[str, TopologyStatus | str]", states: Mapping[str, str]) -> None:
    """Prints each topology with its status, or why its manifest cannot be read."""
    from tuple_tree.names import TOPOLOGIES_TOPIC

    output = standard_output()
    if not statuses:
        output.print(f"no topologies in {TOPOLOGIES_TOPIC}")
        return
    print_table(
        output,
        (
            "topology",
            "state",
            "guarantee",
            "spouts",
            "bolts",
            "ack partitions",
            "topics",
            "ackers",
            "ack lag",
            "lag",
        ),
        [_row(name, states[name], status) for name, status in statuses.items()],
    )
    for name, status in statuses.items():
        if isinstance(status, str):
            output.print(f"{name}: {status}", style="red")


def _row(name: str, state: str, status: "TopologyStatus | str") -> "tuple[str | Text, ...]":
    from rich.text import Text

    if isinstance(status, str):
        return name, Text("unreadable", "red")
    manifest = status.manifest
    wrong = sum(bool(topic.problem) for topic in status.topics)
    return (
        name,
        Text(state, "" if state == "running" else "yellow"),
        manifest.guarantee,
        str(len(manifest.spouts)),
        str(len(manifest.bolts)),
        str(manifest.ack_partitions) if manifest.acking else "-",
        Text(f"{wrong} of {len(status.topics)} missing or wrong", "red") if wrong else f"all {len(status.topics)}",
        _known(status.ackers) if manifest.acking else "-",
        _known(status.ack_lag),
        _known(status.lag),
    )


def _listed(name: str, state: str, status: "TopologyStatus | str") -> dict[str, Any]:
    if isinstance(status, str):
        return {"topology": name, "problem": status}
    manifest = status.manifest
    return {
        "topology": name,
        "state": state,
        "guarantee": manifest.guarantee,
        "spouts": [spout.name for spout in manifest.spouts],
        "bolts": [bolt.name for bolt in manifest.bolts],
        "ack_partitions": manifest.ack_partitions if manifest.acking else None,
        "missing_topics": [topic.name for topic in status.topics if not topic.partitions],
        "ackers": status.ackers,
        "ack_lag": status.ack_lag,
        "lag": status.lag,
    }


def _states(loaded: LoadedSettings, manifest: "Manifest") -> "dict[str, StateFigures]":
    """The states of bolts, with figures where processes report them."""
    from inspection.observer import latest
    from inspection.state_figures import state_figures

    found = {each.name: state_figures(manifest, each, None) for each in manifest.bolts}
    if any(found.values()) and (snapshot := latest(loaded.cluster(), manifest, _STATS_SECONDS)) is not None:
        found |= {each["name"]: each["state"] for each in snapshot["components"]}
    return {name: state for name, state in found.items() if state is not None}


def _print_status(
    status: "TopologyStatus",
    sources: "Iterable[TopicStatus]",
    states: "Mapping[str, StateFigures]",
    control: "Control",
) -> None:
    from rich.text import Text

    from acker_cli.views.states import state_line
    from inspection.notation import show_time

    output, manifest = standard_output(), status.manifest
    about = [f"topology {manifest.topology}", manifest.guarantee]
    if manifest.acking:
        about += [
            f"{manifest.ack_partitions} ack partitions",
            f"tick {manifest.tick_ms / 1000:g} s",
            f"largest tree age {manifest.max_tree_age_ms / 1000:g} s",
            f"{_known(status.ackers)} acker{'' if status.ackers == 1 else 's'}",
        ]
    output.print(", ".join(about))
    if control.state != "running":
        since = f"{control.state} since {show_time(control.since_ms)}, by {control.by}"
        output.print(f"{since}: acker topologies resume {manifest.topology}", style="yellow")
    output.print()
    components = [
        (
            component.name,
            _kind(manifest, component),
            str(component.tasks),
            *map(_known, status.of_component(component.name)),
            "\n".join(_received(component)) or "-",
            "\n".join(f"{each.name}({', '.join(each.field_names)})" for each in component.streams) or "-",
        )
        for component in manifest.components
    ]
    print_table(output, ("component", "kind", "tasks", "members", "lag", "receives", "emits"), components)
    output.print()
    for bolt, state in states.items():
        output.print(state_line(bolt, state))
    if states:
        output.print()
    topics = [
        (
            topic.name,
            Text(topic.problem, "red") if topic.problem else str(len(topic.partitions)),
            f"{sum(one.end - one.begin for one in topic.partitions):,}",
            topic.group or "-",
            _known(topic.lag),
            _known(topic.done_ahead) if topic.group else "-",
            _known(topic.open_ahead) if topic.group else "-",
        )
        for topic in (*status.topics, *sources)
    ]
    print_table(output, ("topic", "partitions", "records", "read by", "lag", "done past offset", "open"), topics)


def _as_json(
    status: "TopologyStatus",
    sources: "Iterable[TopicStatus]",
    states: "Mapping[str, StateFigures]",
    control: "Control",
) -> dict[str, Any]:
    manifest = status.manifest
    return {
        "topology": manifest.topology,
        "state": control.state,
        "state_since": control.since_ms or None,
        "state_by": control.by or None,
        "manifest": manifest.model_dump(mode="json"),
        "ackers": status.ackers,
        "components": [
            {
                "name": component.name,
                "head": manifest.head(component.name).name,
                "members": members,
                "lag": lag,
                "state": states.get(component.name),
            }
            for component in manifest.components
            for members, lag in [status.of_component(component.name)]
        ],
        "topics": [
            {
                "name": topic.name,
                "expected_partitions": topic.expected_partitions,
                "problem": topic.problem or None,
                "group": topic.group,
                "lag": topic.lag,
                "done_ahead": topic.done_ahead,
                "open_ahead": topic.open_ahead,
                "partitions": [dataclasses.asdict(partition) for partition in topic.partitions],
            }
            for topic in (*status.topics, *sources)
        ],
    }


def _to_be_deleted(resources: "TopologyResources", *, keep_topics: bool) -> Iterator[str]:
    from tuple_tree.names import TOPOLOGIES_TOPIC

    yield f"of topology {resources.topology} will be deleted:"
    if resources.is_published:
        yield f"  its manifest in {TOPOLOGIES_TOPIC}, so that acker workers stop serving it"
    if keep_topics:
        return
    for group in resources.groups:
        yield f"  group  {group}"
    for topic in resources.topics:
        yield f"  topic  {topic}, with all that is in it"


def _kind(manifest: "Manifest", component: "Component") -> str:
    if (head := manifest.head(component.name).name) != component.name:
        return f"{component.kind} in {head}"
    return f"external {component.kind}" if component.external else component.kind


def _received(component: "Component") -> Iterator[str]:
    from tuple_tree.components import BoltManifest

    if isinstance(component, BoltManifest):
        for subscription in component.subscriptions:
            by = f"({', '.join(subscription.fields)})" if subscription.fields else ""
            yield f"{subscription.source}/{subscription.stream} {subscription.grouping}{by}"


def _known(count: int | None) -> str:
    return "-" if count is None else f"{count:,}"
