"""Topologies as tables for people and as objects for programs."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from acker_cli.cluster.removal import Remains
from acker_cli.console import print_table
from inspection.topology_status import TopologyStatus
from tuple_tree.manifest import BoltManifest, Component
from tuple_tree.names import TOPOLOGIES_TOPIC

Statuses = Mapping[str, TopologyStatus | str]
"""Topology → its status, or why its manifest cannot be read."""


def print_list(output: Console, statuses: Statuses) -> None:
    if not statuses:
        output.print(f"no topologies in {TOPOLOGIES_TOPIC}")
        return
    print_table(
        output,
        ("topology", "guarantee", "spouts", "bolts", "ack partitions", "topics", "ackers", "unread acks", "waiting"),
        [_row(name, status) for name, status in statuses.items()],
    )
    for name, status in statuses.items():
        if isinstance(status, str):
            output.print(f"{name}: {status}", style="red")


def _row(name: str, status: TopologyStatus | str) -> tuple[str | Text, ...]:
    if isinstance(status, str):
        return name, Text("unreadable", "red")
    manifest = status.manifest
    wrong = sum(bool(topic.problem) for topic in status.topics)
    return (
        name,
        manifest.guarantee,
        str(len(manifest.spouts)),
        str(len(manifest.bolts)),
        str(manifest.ack_partitions) if manifest.acking else "-",
        Text(f"{wrong} of {len(status.topics)} missing or wrong", "red") if wrong else f"all {len(status.topics)}",
        _known(status.ackers) if manifest.acking else "-",
        _known(status.unread_acks),
        _known(status.waiting),
    )


def listed(statuses: Statuses) -> list[dict[str, Any]]:
    return [
        {"topology": name, "problem": status}
        if isinstance(status, str)
        else {
            "topology": name,
            "guarantee": status.manifest.guarantee,
            "spouts": [spout.name for spout in status.manifest.spouts],
            "bolts": [bolt.name for bolt in status.manifest.bolts],
            "ack_partitions": status.manifest.ack_partitions if status.manifest.acking else None,
            "missing_topics": [topic.name for topic in status.topics if not topic.partitions],
            "ackers": status.ackers,
            "unread_acks": status.unread_acks,
            "waiting": status.waiting,
        }
        for name, status in statuses.items()
    ]


def print_shown(output: Console, status: TopologyStatus) -> None:
    manifest = status.manifest
    about = [f"topology {manifest.topology}", manifest.guarantee]
    if manifest.acking:
        about += [
            f"{manifest.ack_partitions} ack partitions",
            f"tick {manifest.tick_ms / 1000:g} s",
            f"largest tree age {manifest.max_tree_age_ms / 1000:g} s",
            f"{_known(status.ackers)} acker{'' if status.ackers == 1 else 's'}",
        ]
    output.print(", ".join(about))
    output.print()
    components = [
        (
            component.name,
            f"external {component.kind}" if component.external else component.kind,
            str(component.tasks),
            *map(_known, status.of_component(component.name)),
            "\n".join(_received(component)) or "-",
            "\n".join(f"{each.name}({', '.join(each.field_names)})" for each in component.streams) or "-",
        )
        for component in manifest.components
    ]
    print_table(output, ("component", "kind", "tasks", "members", "waiting", "receives", "emits"), components)
    output.print()
    topics = [
        (
            topic.name,
            Text(topic.problem, "red") if topic.problem else str(len(topic.partitions)),
            f"{sum(one.end - one.begin for one in topic.partitions):,}",
            topic.group or "-",
            _known(topic.lag),
        )
        for topic in status.topics
    ]
    print_table(output, ("topic", "partitions", "records", "read by", "lag"), topics)


def shown(status: TopologyStatus) -> dict[str, Any]:
    manifest = status.manifest
    return {
        "topology": manifest.topology,
        "manifest": manifest.model_dump(mode="json"),
        "ackers": status.ackers,
        "components": [
            {"name": component.name, "members": members, "waiting": lag}
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
                "partitions": [dataclasses.asdict(partition) for partition in topic.partitions],
            }
            for topic in status.topics
        ],
    }


def to_be_deleted(remains: Remains, *, keep_topics: bool) -> Iterator[str]:
    yield f"of topology {remains.topology} will be deleted:"
    if remains.is_published:
        yield f"  its manifest in {TOPOLOGIES_TOPIC}, so that acker workers stop serving it"
    if keep_topics:
        return
    for group in remains.groups:
        yield f"  group  {group}"
    for topic in remains.topics:
        yield f"  topic  {topic}, with all that is in it"


def _received(component: Component) -> Iterator[str]:
    if isinstance(component, BoltManifest):
        for subscription in component.subscriptions:
            by = f"({', '.join(subscription.fields)})" if subscription.fields else ""
            yield f"{subscription.source}/{subscription.stream} {subscription.grouping}{by}"


def _known(count: int | None) -> str:
    return "-" if count is None else f"{count:,}"
