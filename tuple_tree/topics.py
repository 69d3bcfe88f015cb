"""The topics of a topology, by its manifest: how they are created, and what is checked of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tuple_tree.manifest import Manifest
from tuple_tree.names import (
    TOPOLOGIES_TOPIC,
    acks_topic,
    answers_topic,
    dead_letters_topic,
    notices_topic,
    results_topic,
    state_topic,
    stats_topic,
    tuples_topic,
)

_HOUR_MS: Final = 3_600_000
_SHORT_RETENTION_MS: Final = 24 * _HOUR_MS
_BROKER_TIME: Final = {"message.timestamp.type": "LogAppendTime", "cleanup.policy": "delete"}
_STATS_CONFIG: Final = {
    **_BROKER_TIME,
    "retention.ms": str(2 * _HOUR_MS),
    # What is in the last segment stays, however old it is.
    "segment.ms": str(_HOUR_MS // 2),
}


STORE_HOURS: Final = 1
"""How long a store on disk may be closed, in hours; an older one is deleted, and the whole changelog is read."""
_COMPACT: Final = {"cleanup.policy": "compact"}
# A store on disk that is behind must still find the tombstones of keys that were deleted meanwhile.
_STATE_REQUIRED: Final = {**_COMPACT, "delete.retention.ms": str(2 * STORE_HOURS * _HOUR_MS)}
_STATE_CONFIG: Final = {
    **_STATE_REQUIRED,
    # A restore reads what is not compacted yet: that is never the last segment, and of the others at most a share.
    "segment.bytes": str(64 * 2**20),
    "segment.ms": str(_HOUR_MS),
    "min.cleanable.dirty.ratio": "0.3",
}


@dataclass(frozen=True, slots=True)
class TopicSpec:
    name: str
    partitions: int
    config: dict[str, str] = field(default_factory=dict)  # given at creation
    required: dict[str, str] = field(default_factory=dict)  # checked at every start: wrong ones lead to wrong results
    optional: bool = False  # whether a topology does its work without it as well


def is_compacted(spec: TopicSpec) -> bool:
    """Whether records stay until a later one has their key, however old they are."""
    return spec.required.get("cleanup.policy") == "compact"


def short_retention(manifest: Manifest, config: Mapping[str, str | None]) -> str | None:
    """A warning about an ack log whose retention is shorter than trees may live; None if it is not.

    A user may want it for a while, to save a disk, so it is no reason not to start: such trees time out, and are
    replayed.
    """
    least, topic = least_retention_ms(manifest), acks_topic(manifest.topology)
    # By size it may be any time, so none is promised.
    for key, wanted, limit in (("retention.ms", least, least), ("retention.bytes", -1, float("inf"))):
        value = config.get(key)
        if value is not None and 0 <= int(value) < limit:
            return (
                f"topic {topic} has {key}={value}, but trees may live for {manifest.max_tree_age_ms} ms: those whose "
                f"beginning is deleted time out when a worker takes over. Change it: kafka-configs --alter "
                f"--entity-type topics --entity-name {topic} --add-config {key}={wanted}"
            )
    return None


def least_retention_ms(manifest: Manifest) -> int:
    # As long as a tree may live, as long again for the time in which no worker runs, and some to spare.
    return 3 * manifest.max_tree_age_ms


def topic_specs(manifest: Manifest) -> list[TopicSpec]:
    """All topics of a topology, `acker.topologies` included."""
    topology = manifest.topology
    delete = {"cleanup.policy": "delete"}
    short = {**delete, "retention.ms": str(_SHORT_RETENTION_MS)}
    specs = [TopicSpec(TOPOLOGIES_TOPIC, 1, _COMPACT, _COMPACT)]
    if manifest.acking:
        retention = max(_SHORT_RETENTION_MS, least_retention_ms(manifest))
        config = {**_BROKER_TIME, "retention.ms": str(retention)}
        specs.append(TopicSpec(acks_topic(topology), manifest.ack_partitions, config, _BROKER_TIME))
    # With `at_most_once` it has no records: the group of a spout shares its partitions as tasks.
    specs += [TopicSpec(notices_topic(topology, spout.name), spout.tasks, short, delete) for spout in manifest.spouts]
    specs += [TopicSpec(tuples_topic(topology, bolt.name), bolt.tasks, delete, delete) for bolt in manifest.inboxes]
    specs += [
        TopicSpec(state_topic(topology, bolt.name), bolt.tasks, _STATE_CONFIG, _STATE_REQUIRED)
        for bolt in manifest.bolts
        if bolt.state is not None
    ]
    specs += [
        TopicSpec(results_topic(topology, bolt.name), bolt.tasks, delete, delete)
        for bolt in manifest.bolts
        if bolt.state is not None and bolt.state.windows == "close"
    ]
    if manifest.answered_spouts:
        # Clients read from its end, and find an older outcome nowhere else than in a topic of outcomes.
        specs.append(TopicSpec(answers_topic(topology), manifest.ack_partitions, short, delete))
    specs.append(TopicSpec(dead_letters_topic(topology), 1, delete, delete))
    specs.append(TopicSpec(stats_topic(topology), 1, _STATS_CONFIG, _BROKER_TIME, optional=True))
    return specs
