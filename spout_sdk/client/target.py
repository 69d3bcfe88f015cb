"""The topics of a client: the source topic of a spout, and the topic with the outcomes of its messages."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

from kafka_clients.catalogue import Catalogue
from spout_sdk.api.topology import Topology
from spout_sdk.errors import AccessError, ClientError, TopicsError
from tuple_tree.components import OutcomesCodec, OutcomesManifest, SpoutManifest
from tuple_tree.manifest import Manifest
from tuple_tree.names import answers_topic
from tuple_tree.outcome_records import OutcomesOf
from tuple_tree.positions import topic_key


@dataclass(frozen=True, slots=True)
class Target:
    """A spout whose messages a client sends.

    Attributes:
        own: recognises the outcomes of its messages.
        topic: a topic that it reads, to which the client writes.
        reads: the topic of the outcomes that the client reads.
        has_answers: whether that topic is `{topology}.answers`; otherwise it is the topic of the spout's outcomes.
        topic_key: the `tuple_tree.positions.topic_key` of `topic`.
    """

    own: OutcomesOf
    topic: str
    reads: str
    has_answers: bool
    codec: OutcomesCodec
    ack_partitions: int
    topic_key: int

    @classmethod
    def of(
        cls, manifest: Manifest, spout: str | None, topic: str, topic_id: str, published: Mapping[str, object] | None
    ) -> Self:
        """The target of a spout, or of the only one whose messages have outcomes.

        `published` has the manifests of all topologies, by name; None if they are not known.

        Raises:
            ClientError: if there is no such spout, or several.
        """
        chosen = spout_of(manifest, spout)
        outcomes = chosen.outcomes
        if has_answers := _is_answered(manifest, chosen):
            outcomes = OutcomesManifest(topic=answers_topic(manifest.topology))
        assert outcomes is not None  # noqa: S101 - `spout_of` chooses such a spout
        own = OutcomesOf.among(manifest, chosen.name, published)
        of_topic = manifest.ack_partitions, topic_key(topic_id)
        return cls(own, topic, outcomes.topic, has_answers, outcomes.codec, *of_topic)


def find_target(topology: Topology | str, kafka: Mapping[str, Any], spout: str | None, topic: str | None) -> Target:
    """Finds the target of a client; waits for the brokers.

    Raises:
        ClientError: if the topology has no such spout, or its topic is not known.
        BrokerError: if the manifest cannot be read, or the topic does not exist.
    """
    catalogue = Catalogue(kafka)
    if isinstance(topology, Topology):
        manifest = topology.manifest
        topic = source_topic(topology, spout_of(manifest, spout).name, topic)
    else:
        manifest = catalogue.manifest(topology)
    if topic is None:
        name = spout_of(manifest, spout).name
        raise ClientError(
            f"the manifest of {manifest.topology} does not name the topic that spout {name!r} reads: pass topic=, "
            "or the Topology"
        )
    topic_id = catalogue.topic_id(topic)
    if topic_id is None:
        raise TopicsError(topic, "does not exist, and the client writes to it: create it", is_missing=True)
    published: Mapping[str, object] | None = None
    if not _is_answered(manifest, spout_of(manifest, spout)):
        with suppress(AccessError, TopicsError):  # this user may not read them
            published = catalogue.manifests()
    return Target.of(manifest, spout, topic, topic_id, published)


def spout_of(manifest: Manifest, name: str | None) -> SpoutManifest:
    """The spout of that name, or the only one whose messages have outcomes. Raises `ClientError`."""
    known = [spout for spout in manifest.spouts if spout.outcomes is not None or _is_answered(manifest, spout)]
    if name is None and len(known) == 1:
        return known[0]
    for spout in known if name is not None else ():
        if spout.name == name:
            return spout
    names = ", ".join(spout.name for spout in known)
    if name is None and known:
        raise ClientError(f"several spouts of {manifest.topology} have outcomes, {names}: pass spout=")
    what = "no spout" if name is None else f"no spout {name!r}"
    raise ClientError(
        f"topology {manifest.topology} has {what} whose messages have outcomes; it has {names or 'none'}. Give a "
        "KafkaSpout outcomes=TOPIC, or have a bolt answer its messages (answers = True)"
    )


def source_topic(topology: Topology, spout: str, topic: str | None) -> str:
    """The source topic of a spout to write to: the given one, or the only one. Raises `ClientError`."""
    found = topology.sources.get(spout)
    topics = (found,) if isinstance(found, str) else found or ()
    if topic is None and len(topics) == 1:
        return topics[0]
    if topic is None or topic not in topics:
        which = "several topics" if topic is None else f"not topic {topic}"
        raise ClientError(f"spout {spout!r} reads {which}: pass topic=, one of: {', '.join(topics) or 'it reads none'}")
    return topic


def _is_answered(manifest: Manifest, spout: SpoutManifest) -> bool:
    """Whether the spout writes outcomes after the answers of bolts."""
    return spout in manifest.answered_spouts and not spout.external
