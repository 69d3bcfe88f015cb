"""Topologies as tables for people and as objects for programs."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from acker_cli.cluster.removal import Remains
from acker_cli.console import plain_table, unlimited
from inspection.topology_status import TopicStatus, TopologyStatus
from tuple_tree.manifest import BoltManifest, Component
from tuple_tree.names import TOPOLOGIES_TOPIC

Statuses = Mapping[str, TopologyStatus | str]
"""Topology → its status, or why its manifest cannot be read."""


def print_list(output: Console, statuses: Statuses) -> None:
    if not statuses:
        output.print(f"no topologies in {TOPOLOGIES_TOPIC}", markup=False)
        return
    table = plain_table(
        *("topology", "guarantee", "spouts", "bolts", "ack partitions", "topics", "ackers", "unread acks", "waiting")
    )
    for name, status in statuses.items():
        if isinstance(status, str):
            table.add_row(Text(name, "cyan"), Text("unreadable", "red"))
            continue
        manifest = status.manifest
        table.add_row(
            Text(name, "cyan"),
            manifest.guarantee,
            str(len(manifest.spouts)),
            str(len(manifest.bolts)),
            str(manifest.ack_partitions) if manifest.acking else "-",
            _topics(status),
            _known(status.ackers) if manifest.acking else "-",
            _known(status.unread_acks),
            _known(status.waiting),
        )
    unlimited(output).print(table)
    for name, status in statuses.items():
        if isinstance(status, str):
            output.print(f"{name}: {status}", style="red", markup=False)


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
            "missing_topics": status.missing,
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
    output.print(", ".join(about), markup=False)
    output.print()
    components = plain_table("component", "kind", "tasks", "members", "waiting", "receives", "emits")
    for component in manifest.components:
        members, lag = status.of_component(component.name)
        components.add_row(
            Text(component.name, "cyan"),
            _kind(component),
            str(component.tasks),
            _known(members),
            _known(lag),
            Text("\n".join(_received(component)) or "-"),
            Text("\n".join(_emitted(component)) or "-"),
        )
    unlimited(output).print(components)
    output.print()
    topics = plain_table("topic", "partitions", "records", "read by", "lag")
    for topic in status.topics:
        topics.add_row(
            Text(topic.name, "cyan"),
            Text(topic.problem, "red") if topic.problem else str(len(topic.partitions)),
            f"{sum(one.end - one.begin for one in topic.partitions):,}",
            topic.group or "-",
            _known(topic.lag),
        )
    output.print(topics)


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
        "topics": [_topic(topic) for topic in status.topics],
    }


def to_be_deleted(remains: Remains, *, keep_topics: bool) -> Iterator[str]:
    yield f"of topology {remains.topology} will be deleted:"
    if remains.is_published:
        yield f"  its manifest in {TOPOLOGIES_TOPIC}, so that acker workers let go of it"
    if keep_topics:
        return
    for group in remains.groups:
        yield f"  group  {group}"
    for topic in remains.topics:
        yield f"  topic  {topic}, with all that is in it"


def _topic(topic: TopicStatus) -> dict[str, Any]:
    return {
        "name": topic.name,
        "expected_partitions": topic.expected_partitions,
        "problem": topic.problem or None,
        "group": topic.group,
        "lag": topic.lag,
        "partitions": [dataclasses.asdict(partition) for partition in topic.partitions],
    }


def _topics(status: TopologyStatus) -> str | Text:
    wrong = [topic for topic in status.topics if topic.problem]
    if not wrong:
        return f"all {len(status.topics)}"
    return Text(f"{len(wrong)} of {len(status.topics)} missing or wrong", "red")


def _kind(component: Component) -> str:
    return f"external {component.kind}" if component.external else component.kind


def _received(component: Component) -> Iterator[str]:
    if isinstance(component, BoltManifest):
        for subscription in component.subscriptions:
            by = f"({', '.join(subscription.fields)})" if subscription.fields else ""
            yield f"{subscription.source}/{subscription.stream} {subscription.grouping}{by}"


def _emitted(component: Component) -> Iterator[str]:
    for stream in component.streams:
        yield f"{stream.name}({', '.join(stream.field_names)})"


def _known(count: int | None) -> str:
    return "-" if count is None else f"{count:,}"
