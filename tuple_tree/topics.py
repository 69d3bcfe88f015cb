"""Which topics a topology needs, and how they must be configured."""

from dataclasses import dataclass, field
from typing import Final

from tuple_tree.manifest import Manifest
from tuple_tree.names import TOPOLOGIES_TOPIC, acks_topic, dead_letters_topic, notices_topic, tuples_topic

_HOUR_MS: Final = 3_600_000
_SHORT_RETENTION_MS: Final = 24 * _HOUR_MS


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """A topic as it has to be.

    Attributes:
        name: full name.
        partitions: fixed; a topic with another number is refused.
        config: topic settings given at creation.
        required: those of them without which the product would lie; checked at every start.
    """

    name: str
    partitions: int
    config: dict[str, str] = field(default_factory=dict)
    required: dict[str, str] = field(default_factory=dict)


def acks_spec(manifest: Manifest) -> TopicSpec:
    """The ack log: kept for at least three times the largest tree age, on the broker's own time."""
    required = {"message.timestamp.type": "LogAppendTime", "cleanup.policy": "delete"}
    retention = max(_SHORT_RETENTION_MS, 3 * manifest.max_tree_age_ms)
    return TopicSpec(
        acks_topic(manifest.topology),
        manifest.ack_partitions,
        {**required, "retention.ms": str(retention)},
        required,
    )


def topic_specs(manifest: Manifest) -> list[TopicSpec]:
    """All topics of a topology, `acker.topologies` included."""
    topology = manifest.topology
    delete = {"cleanup.policy": "delete"}
    short = {**delete, "retention.ms": str(_SHORT_RETENTION_MS)}
    specs = [TopicSpec(TOPOLOGIES_TOPIC, 1, {"cleanup.policy": "compact"}, {"cleanup.policy": "compact"})]
    if manifest.acking:
        specs.append(acks_spec(manifest))
        specs += [
            TopicSpec(notices_topic(topology, spout.name), spout.tasks, short, delete) for spout in manifest.spouts
        ]
    specs += [TopicSpec(tuples_topic(topology, bolt.name), bolt.tasks, delete, delete) for bolt in manifest.bolts]
    specs.append(TopicSpec(dead_letters_topic(topology), 1, delete, delete))
    return specs
