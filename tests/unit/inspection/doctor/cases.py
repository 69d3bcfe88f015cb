"""The facts of a healthy topology on a healthy cluster; each test changes one of them."""

from dataclasses import replace
from typing import Any

from confluent_kafka import Node, TopicPartitionInfo

from inspection.doctor.facts import Facts, TopologyFacts
from inspection.health.findings import Finding
from inspection.health.observation import LagChange, Observation
from inspection.view import Snapshot, TopologyView
from tests.manifests import bolt, spout
from tests.manifests import manifest as manifest_of
from tuple_tree.manifest import Guarantee, Manifest
from tuple_tree.streams import declare
from tuple_tree.topics import topic_specs

SERVERS = "kafka:9092"
NOW = 1_760_000_000_000


def manifest(
    *, guarantee: Guarantee = "at_least_once", external: bool = False, tasks: int = 2, max_tree_age_ms: int = 300_000
) -> Manifest:
    split = bolt("split", "lines", tasks=tasks, streams=(declare("word"),), external=external)
    return manifest_of(
        spout("lines", external=external),
        split,
        guarantee=guarantee,
        ack_partitions=3,
        max_tree_age_ms=max_tree_age_ms,
    )


def partitions(count: int, copies: int = 3, in_sync: int = 3, *, has_leader: bool = True) -> list[TopicPartitionInfo]:
    nodes = [Node(number, "kafka", 9092) for number in range(copies)]
    leader: Any = nodes[0] if has_leader else None
    return [TopicPartitionInfo(number, leader, nodes, nodes[:in_sync]) for number in range(count)]


def configs(of: Manifest, least: int = 2) -> dict[str, dict[str, str | None]]:
    return {
        spec.name: {
            "retention.ms": "604800000",
            "retention.bytes": "-1",
            "min.insync.replicas": str(least),
            "unclean.leader.election.enable": "false",
            **spec.config,
        }
        for spec in topic_specs(of)
    }


def lag_change(group: str = "split", topic: str = "tuples.split", **changed: int | bool) -> LagChange:
    return replace(LagChange(f"words.{group}", f"words.{topic}", 0, 2.0, 10, 20, 200), **changed)  # type: ignore[arg-type]


def topology(of: Manifest | None = None, *, copies: int = 3, least: int = 2) -> TopologyFacts:
    of = of or manifest()
    topics = {spec.name: partitions(spec.partitions, copies, copies) for spec in topic_specs(of)}
    members: dict[str, int | None] = {"words.split": 2}
    lag_changes = [lag_change()]
    if of.acking:
        members |= {"words.acker": 1, "words.lines": 1}
        lag_changes.append(lag_change("acker", "acks"))
    observed = Observation(of, snapshot(of), tuple(lag_changes), members=members)
    return TopologyFacts(observed, topics, configs(of, least))


def snapshot(of: Manifest, **components: dict[str, Any]) -> Snapshot:
    """The figures of components by their names, on top of those of a process that does nothing; none of others."""
    found = TopologyView(of).snapshot(NOW)
    for view in found["components"]:
        if view["name"] in components:
            running = {"processes": 1, "owned_tasks": view["tasks"], "youngest_seconds": 3_600.0, "unread": None}
            view.update({**running, **components[view["name"]]})  # type: ignore[typeddict-item]
    return found


def observing(facts: TopologyFacts, **changed: Any) -> TopologyFacts:
    return replace(facts, observed=replace(facts.observed, **changed))


def healthy(of: TopologyFacts | None = None) -> Facts:
    of = of or topology()
    return Facts(SERVERS, brokers=3, clock=(-0.4, 0.1), topologies=(of,), published=(of.manifest.topology,), java=17)


def with_topic(facts: TopologyFacts, name: str, of: list[TopicPartitionInfo]) -> TopologyFacts:
    return replace(facts, topics={**facts.topics, name: of})


def with_setting(facts: TopologyFacts, name: str, key: str, value: str) -> TopologyFacts:
    return replace(facts, configs={**facts.configs, name: {**facts.configs[name], key: value}})


def summaries(findings: list[Finding]) -> list[tuple[str, str, str]]:
    """Severity, check and subject of each."""
    return [(str(each.severity), each.check, each.subject) for each in findings]
