"""Checks of a topology's topics against its manifest."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from typing import Final

from confluent_kafka import TopicPartitionInfo

from inspection.doctor.facts import TopologyFacts
from inspection.health.findings import Check, Finding, Severity
from inspection.notation import counted, show_writers
from kafka_clients.access import VIEWER, remedy
from tuple_tree.errors import WireError
from tuple_tree.manifest import Manifest
from tuple_tree.names import (
    TOPOLOGIES_TOPIC,
    acks_topic,
    component_group,
    dead_letters_topic,
    notices_topic,
    state_topic,
    tuples_topic,
)
from tuple_tree.state_records import About
from tuple_tree.topics import TopicSpec, is_compacted, least_retention_ms, topic_specs

_KINDS: Final = ("tuples", "notices", "state")
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
        partitions = facts.topics.get(spec.name)
        if spec.name in facts.hidden:
            yield _check("topics", spec.name).note("has no DESCRIBE ACL for this user.", f"{remedy(VIEWER)}.")
        elif partitions is None:
            yield _check("topics", spec.name).problem(
                "does not exist.", "Create it: acker topics create MODULE:TOPOLOGY."
            )
        elif len(partitions) != spec.partitions:
            yield _check("topics", spec.name).problem(
                f"has {len(partitions)} partitions, but the manifest has {spec.partitions}.",
                "A running topology keeps its partitions: set the manifest's number back, or use a new topology name.",
            )


def check_settings(facts: TopologyFacts) -> Iterator[Finding]:
    """Every topic has the settings without which outcomes would be wrong."""
    for spec in _existing(facts):
        config = facts.configs.get(spec.name)
        if config is None:
            yield _check("topic-settings", spec.name).note(
                "has no DESCRIBE_CONFIGS ACL for this user.", f"{remedy(VIEWER)}."
            )
            continue
        for key, wanted in spec.required.items():
            if config.get(key) != wanted:
                yield _check("topic-settings", spec.name).problem(
                    f"has {key}={config.get(key)}, but it must be {wanted}.", _alter(spec.name, key, wanted)
                )


def check_retention(facts: TopologyFacts) -> Iterator[Finding]:
    """Nothing is deleted while a tree may need it."""
    manifest = facts.manifest
    oldest = f"trees may live for {manifest.max_tree_age_ms} ms"
    for spec in _existing(facts):
        if spec.name in (TOPOLOGIES_TOPIC, dead_letters_topic(manifest.topology)) or is_compacted(spec):
            continue
        config = facts.configs.get(spec.name, {})
        is_log = spec.name == acks_topic(manifest.topology)
        least = least_retention_ms(manifest) if is_log else manifest.max_tree_age_ms
        follows = (
            "those whose beginning is deleted time out when a worker takes over"
            if is_log
            else "records that are deleted before they are read are replayed, or lost where trees are not tracked"
        )
        kept = _number(config.get("retention.ms"))
        if kept is not None and 0 <= kept < least:
            yield _check("retention", spec.name).warning(
                f"has retention.ms={kept}, but {oldest}: {follows}.", _alter(spec.name, "retention.ms", str(least))
            )
        size = _number(config.get("retention.bytes"))
        # By size it may be any time, so none is promised.
        if size is not None and size >= 0:
            yield _check("retention", spec.name).warning(
                f"has retention.bytes={size}, which may be any time, but {oldest}: {follows}.",
                _alter(spec.name, "retention.bytes", "-1"),
            )


def check_states(facts: TopologyFacts) -> Iterator[Finding]:
    """Every changelog belongs to the state in the manifest, and its positions to the current source topics."""
    for (topic, partition), about in sorted(facts.abouts.items()):
        bolt = topic.removeprefix(state_topic(facts.manifest.topology, ""))
        reset = f"begin with an empty state: acker state reset {facts.manifest.topology} {bolt}."
        if not about:
            yield _check("states", topic).problem(
                f"has no record that describes it in partition {partition}, although its task has processed tuples: it "
                "was deleted, or the bolt had no state before. The bolt does not start.",
                f"Publish the manifest that fits, or stop the bolt and {reset}",
            )
            continue
        try:
            written = About.from_json(about)
            difference = written.difference(About.of(facts.manifest, bolt))
        except WireError as error:
            written, difference = None, error.detail
        if difference:
            yield _check("states", topic).problem(
                f"is the changelog of another state in partition {partition}: {difference}. The bolt does not start.",
                f"Run the code that has written it, or stop the bolt and {reset}",
            )
        elif written is not None:
            for source, change in _changed_sources(written, facts.source_ids):
                yield _check("states", topic).problem(
                    f"has positions of an earlier topic {source!r} in partition {partition}: the topic {change}. "
                    "The bolt does not start: it would skip new messages with the same positions.",
                    "When no tuple of the earlier topic waits in an inbox, stop the bolt, and forget the positions: "
                    f"acker state reset {facts.manifest.topology} {bolt} --keep-values.",
                )


def _changed_sources(written: About, ids: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    sources = {
        spout: {name: ids.get(name, id_) for name, id_ in topics.items()} for spout, topics in written.sources.items()
    }
    return written.changed_sources(replace(written, sources=sources)).values()


def check_copies(facts: TopologyFacts) -> Iterator[Finding]:
    """Every partition has a leader, and enough copies of it that are up to date."""
    for spec in _existing(facts):
        config, check = facts.configs.get(spec.name), _check("copies", spec.name)
        least = _number((config or {}).get("min.insync.replicas")) or 1
        yield from _check_state(facts, spec.name, least)
        copies = _copies(facts, spec.name)
        if config is None or copies < 2:
            # A cluster of one broker cannot have more than one.
            continue
        if least == copies:
            yield check.warning(
                f"has min.insync.replicas={least} and as many copies: while one broker is down, writes fail.",
                _alter(spec.name, "min.insync.replicas", str(copies - 1)),
            )
        elif least == 1 and copies > 2:
            yield check.warning(
                f"has {copies} copies, but min.insync.replicas=1: records that only one broker has acknowledged are "
                "lost with it.",
                _alter(spec.name, "min.insync.replicas", str(copies - 1)),
            )
        if (config.get("unclean.leader.election.enable") or "false") != "false":
            yield check.warning(
                "has unclean.leader.election.enable=true: a copy that missed records may become the leader, and they "
                "are lost.",
                _alter(spec.name, "unclean.leader.election.enable", "false"),
            )


def check_single_copies(facts: TopologyFacts, brokers: int) -> Iterator[Finding]:
    """Topics have more than one copy where there is more than one broker."""
    single = [spec.name for spec in _existing(facts) if _copies(facts, spec.name) == 1]
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
    chained = {tuples_topic(topology, bolt.name): bolt.name for bolt in facts.manifest.bolts if bolt.is_chained}
    for name in sorted(facts.topics):
        kind = name.removeprefix(f"{topology}.").partition(".")[0]
        if name in chained:
            yield _check("leftovers", name).warning(
                f"is the inbox that bolt {chained[name]} had before it was chained to "
                f"{facts.manifest.head(chained[name]).name}: its records are not read.",
                "Delete it when no process with the earlier code runs any more.",
            )
        elif members := facts.strangers.get(name):
            yield _check("leftovers", name).problem(
                f"belongs to no component of the manifest of {topology}, and its group has "
                f"{counted(members, 'member')}: another program of that name was published, or processes of earlier "
                "code run.",
                "Stop these processes if their code is the earlier one. Else publish their manifest again, with acker "
                "topics create MODULE:TOPOLOGY --replace, and give the other program another name.",
            )
        elif name not in wanted and name.startswith(f"{topology}.") and kind in _KINDS:
            yield _check("leftovers", name).warning(
                f"belongs to no component of the manifest of {topology}: its records are not read.",
                "Delete it if its component was removed or renamed; else publish the manifest that has it.",
            )


def check_outcomes(facts: TopologyFacts) -> Iterator[Finding]:
    """No other topology writes its outcomes to the same topic."""
    for spout, topic in facts.manifest.outcome_topics.items():
        if others := show_writers(facts.manifest.topology, facts.other_writers.get(spout, ())):
            yield _check("outcomes", topic).note(
                f"has the outcomes of spout {spout}, and of {others}: the headers topology and spout of a record name "
                "its spout. Records without them, of version 0.2 or earlier, are not used.",
                "Check that the readers of the topic compare the headers, or give each topology a topic of its own.",
            )


def unknown_topics(topics: Iterable[str], manifest: Manifest) -> dict[str, str]:
    """The topics of components that are not in the manifest, each with the group that reads it."""
    begins = [f"{manifest.topology}.{kind}." for kind in ("tuples", "notices")]
    known = {each.name for each in manifest.components}
    return {
        name: component_group(manifest.topology, component)
        for name in topics
        for begin in begins
        if name.startswith(begin) and (component := name.removeprefix(begin)) not in known
    }


def component_of(topic: str, manifest: Manifest) -> str | None:
    """The component whose inbox, notices or changelog a topic is; None if it belongs to no single one."""
    topology = manifest.topology
    for component in manifest.components:
        name = component.name
        if topic in (tuples_topic(topology, name), notices_topic(topology, name), state_topic(topology, name)):
            return name
    return None


def _copies(facts: TopologyFacts, topic: str) -> int:
    """The number of replicas of the partition with the fewest; 0 without partitions."""
    return min((len(each.replicas) for each in facts.topics[topic]), default=0)


def _check_state(facts: TopologyFacts, topic: str, least: int) -> Iterator[Finding]:
    for what, group in groupby(facts.topics[topic], key=lambda each: _state(each, least)):
        if not what:
            continue
        numbers = [each.id for each in group]
        severity = Severity.WARNING if what.startswith("has fewer") else Severity.PROBLEM
        where = f"partition {numbers[0]}" if len(numbers) == 1 else f"partitions {numbers[0]} to {numbers[-1]}"
        yield _check("copies", topic).finding(
            severity,
            f"{what} ({where}).",
            "See which brokers are down, and start them: kafka-topics --describe --under-replicated-partitions.",
        )


def _state(partition: TopicPartitionInfo, least: int) -> str:
    copies, in_sync = len(partition.replicas), len(partition.isr)
    if not partition.leader:
        return "has no leader: reads and writes fail"
    if least > copies:
        return f"has min.insync.replicas={least}, but only {copies} copies: writes fail"
    if in_sync < least:
        return f"has {in_sync} copies up to date, fewer than min.insync.replicas={least}: writes fail"
    return f"has fewer copies up to date than replicas, {in_sync} of {copies}" if in_sync < copies else ""


def _existing(facts: TopologyFacts) -> list[TopicSpec]:
    return [spec for spec in topic_specs(facts.manifest) if spec.name in facts.topics]


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


OF_TOPICS: Final = (
    check_declared,
    check_topics,
    check_settings,
    check_retention,
    check_states,
    check_copies,
    check_leftovers,
    check_outcomes,
)
