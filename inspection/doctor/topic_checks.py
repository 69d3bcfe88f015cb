"""Checks of a topology's topics against its manifest."""

from collections.abc import Iterator
from itertools import groupby
from typing import Final

from inspection.doctor.facts import Check, Finding, PartitionFacts, Severity, TopicFacts, TopologyFacts
from kafka_clients.access import VIEWER, remedy
from tuple_tree.manifest import Manifest, TopicSpec, least_retention_ms, topic_specs
from tuple_tree.names import TOPOLOGIES_TOPIC, acks_topic, dead_letters_topic

_KINDS: Final = ("tuples", "notices")
"""The topics `{topology}.KIND.{component}` that only the manifest's components have."""


def check_declared(facts: TopologyFacts) -> Iterator[Finding]:
    """The published manifest is that of the code, if the code is known."""
    declared = facts.declared
    if declared is not None and declared != facts.manifest:
        yield Check("manifest", facts.manifest.topology).problem(
            f"The published manifest is not that of the code: {_differences(facts.manifest, declared)}.",
            "Publish it: acker topics create MODULE:TOPOLOGY; or check which code is running.",
        )


def check_topics(facts: TopologyFacts) -> Iterator[Finding]:
    """Every topic exists and has the manifest's number of partitions."""
    for spec in topic_specs(facts.manifest):
        topic = facts.topics.get(spec.name)
        if spec.name in facts.hidden:
            yield _check("topics", spec.name).note("has no DESCRIBE ACL for this user.", f"{remedy(VIEWER)}.")
        elif topic is None:
            yield _check("topics", spec.name).problem(
                "does not exist.", "Create it: acker topics create MODULE:TOPOLOGY."
            )
        elif len(topic.partitions) != spec.partitions:
            yield _check("topics", spec.name).problem(
                f"has {len(topic.partitions)} partitions, but the manifest says {spec.partitions}.",
                "A running topology keeps its partitions: set the manifest's number back, or use a new topology name.",
            )


def check_settings(facts: TopologyFacts) -> Iterator[Finding]:
    """Every topic has the settings without which outcomes would be wrong."""
    for spec, topic in _existing(facts):
        if topic.config is None:
            yield _check("topic-settings", spec.name).note(
                "has no DESCRIBE_CONFIGS ACL for this user.", f"{remedy(VIEWER)}."
            )
            continue
        for key, wanted in spec.required.items():
            actual = topic.config.get(key)
            if actual != wanted:
                yield _check("topic-settings", spec.name).problem(
                    f"has {key}={actual}, but it must be {wanted}.", _alter(spec.name, key, wanted)
                )


def check_retention(facts: TopologyFacts) -> Iterator[Finding]:
    """Nothing is deleted while a tree may need it."""
    manifest = facts.manifest
    oldest = f"trees may live for {manifest.max_tree_age_ms} ms"
    for spec, topic in _existing(facts):
        if spec.name in (TOPOLOGIES_TOPIC, dead_letters_topic(manifest.topology)) or topic.config is None:
            continue
        is_log = spec.name == acks_topic(manifest.topology)
        least = least_retention_ms(manifest) if is_log else manifest.max_tree_age_ms
        follows = (
            "those whose beginning is deleted time out when a worker takes over"
            if is_log
            else "records that are deleted before they are read are replayed, or lost where trees are not tracked"
        )
        kept = _number(topic.config.get("retention.ms"))
        if kept is not None and 0 <= kept < least:
            yield _check("retention", spec.name).warning(
                f"has retention.ms={kept}, but {oldest}: {follows}.", _alter(spec.name, "retention.ms", str(least))
            )
        size = _number(topic.config.get("retention.bytes"))
        # By size it may be any time, so none is promised.
        if size is not None and size >= 0:
            yield _check("retention", spec.name).warning(
                f"has retention.bytes={size}, which may be any time, but {oldest}: {follows}.",
                _alter(spec.name, "retention.bytes", "-1"),
            )


def check_copies(facts: TopologyFacts) -> Iterator[Finding]:
    """Every partition has a leader, and enough copies of it that are up to date."""
    for _spec, topic in _existing(facts):
        least = _number((topic.config or {}).get("min.insync.replicas")) or 1
        yield from _check_state(topic, least)
        copies = min((each.replicas for each in topic.partitions), default=0)
        if topic.config is None or copies < 2:
            # A cluster of one broker cannot have more than one.
            continue
        if least == copies:
            yield _check("copies", topic.name).warning(
                f"has min.insync.replicas={least} and as many copies: while one broker is down, writes fail.",
                _alter(topic.name, "min.insync.replicas", str(copies - 1)),
            )
        elif least == 1 and copies > 2:
            yield _check("copies", topic.name).warning(
                f"has {copies} copies, but min.insync.replicas=1: records that only one broker has acknowledged are "
                "lost with it.",
                _alter(topic.name, "min.insync.replicas", str(copies - 1)),
            )
        if (topic.config.get("unclean.leader.election.enable") or "false") != "false":
            yield _check("copies", topic.name).warning(
                "has unclean.leader.election.enable=true: a copy that missed records may become the leader, and they "
                "are lost.",
                _alter(topic.name, "unclean.leader.election.enable", "false"),
            )


def check_single_copies(facts: TopologyFacts, brokers: int) -> Iterator[Finding]:
    """Topics have more than one copy where there is more than one broker."""
    single = [
        topic.name
        for _spec, topic in _existing(facts)
        if topic.partitions and min(each.replicas for each in topic.partitions) == 1
    ]
    if brokers > 1 and single:
        yield Check("copies", facts.manifest.topology).warning(
            f"Of {brokers} brokers only one has a copy of {', '.join(single)}: while it is down the topology stops, "
            "and records that it loses are lost.",
            "Give them more copies with kafka-reassign-partitions; new topics get them by --set "
            "topics.replication_factor=3.",
        )


def check_leftovers(facts: TopologyFacts) -> Iterator[Finding]:
    """There are no topics of components that the manifest does not have."""
    topology = facts.manifest.topology
    wanted = {spec.name for spec in topic_specs(facts.manifest)}
    for name in sorted(facts.topics):
        kind = name.removeprefix(f"{topology}.").partition(".")[0]
        if name not in wanted and name.startswith(f"{topology}.") and kind in _KINDS:
            yield _check("leftovers", name).warning(
                f"belongs to no component of the manifest of {topology}: its records are not read.",
                "Delete it if its component was removed or renamed; else publish the manifest that has it.",
            )


def _check_state(topic: TopicFacts, least: int) -> Iterator[Finding]:
    for what, group in groupby(topic.partitions, key=lambda each: _state(each, least)):
        if not what:
            continue
        numbers = [each.number for each in group]
        severity = Severity.WARNING if what.startswith("has fewer") else Severity.PROBLEM
        where = f"partition {numbers[0]}" if len(numbers) == 1 else f"partitions {numbers[0]} to {numbers[-1]}"
        yield _check("copies", topic.name).finding(
            severity,
            f"{what} ({where}).",
            "See which brokers are down, and start them: kafka-topics --describe --under-replicated-partitions.",
        )


def _state(partition: PartitionFacts, least: int) -> str:
    if not partition.has_leader:
        return "has no leader: reads and writes fail"
    if least > partition.replicas:
        return f"has min.insync.replicas={least}, but only {partition.replicas} copies: writes fail"
    if partition.in_sync < least:
        return f"has {partition.in_sync} copies up to date, fewer than min.insync.replicas={least}: writes fail"
    if partition.in_sync < partition.replicas:
        return f"has fewer copies up to date than replicas, {partition.in_sync} of {partition.replicas}"
    return ""


def _existing(facts: TopologyFacts) -> Iterator[tuple[TopicSpec, TopicFacts]]:
    for spec in topic_specs(facts.manifest):
        topic = facts.topics.get(spec.name)
        if topic is not None:
            yield spec, topic


def _differences(published_: Manifest, declared_: Manifest) -> str:
    published, declared = published_.model_dump(), declared_.model_dump()
    parts = {part["name"]: part for part in published.pop("components")}
    ours = {part["name"]: part for part in declared.pop("components")}
    named = [
        f"{key} is {published[key]} instead of {declared[key]}" for key in declared if published[key] != declared[key]
    ]
    named += [f"it has no component {name}" for name in ours if name not in parts]
    named += [f"it has a component {name}" for name in parts if name not in ours]
    named += [f"component {name} is another" for name in ours if name in parts and ours[name] != parts[name]]
    return "; ".join(named) or "its components are in another order"


def _number(value: str | None) -> int | None:
    try:
        return None if value is None else int(value)
    except ValueError:
        return None


def _alter(topic: str, key: str, value: str) -> str:
    return (
        f"Change it: kafka-configs --bootstrap-server HOST:PORT --alter --entity-type topics --entity-name {topic} "
        f"--add-config {key}={value}"
    )


def _check(name: str, topic: str) -> Check:
    return Check(name, topic, f"Topic {topic} ")
