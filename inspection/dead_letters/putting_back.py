"""Which dead letters can be put back, and as what."""

from collections.abc import Collection, Mapping
from typing import Final

from inspection.dead_letters.letter import DeadLetter, Header
from tuple_tree.anchors import ANCHOR_COUNTS_HEADER, ANCHORS_HEADER
from tuple_tree.names import TOPOLOGIES_TOPIC, acks_topic, notices_topic, tuples_topic

_INTERNAL: Final = "__"
"""How the names of Kafka's own topics begin."""


def why_not(letter: DeadLetter, topology: str, partitions: Mapping[str, int], allowed: Collection[str] = ()) -> str:
    """Why a dead letter cannot be put back, and what to do; empty if it can.

    Args:
        letter: one of the topology's.
        topology: its name.
        partitions: topic → partitions, of all topics of the cluster.
        allowed: topics outside of the topology that the user has named. Where a letter lay is told by a header that
            whoever may write dead letters can set, so nothing is written where it leads without being asked.
    """
    topic = letter.topic
    if not topic or letter.partition < 0:
        return "it does not say where it lay: nobody knows where to put it"
    if topic == acks_topic(topology):
        return (
            "it lay in the ack log or tells of it, and the trees of an old ack batch have ended: the spouts have "
            "replayed them"
        )
    if topic.startswith(notices_topic(topology, "")):
        return "it is a notice, and the trees that it tells of have ended: the spouts have given up on them"
    if letter.value is None:
        return f"its value was not kept, or it had none: see {letter.place}"
    if not topic.startswith(tuples_topic(topology, "")):
        if topic.startswith((f"{topology}.", _INTERNAL)) or topic == TOPOLOGIES_TOPIC:
            return f"it says that it lay in {topic}, where only components of the topology write"
        if topic not in allowed:
            return f"it lay outside of the topology: name the topic to write there, --topic {topic}"
    if topic not in partitions:
        return f"topic {topic} does not exist any more"
    if letter.partition >= partitions[topic]:
        return f"topic {topic} has only {partitions[topic]} partitions: it lay in {letter.partition}"
    return ""


def restored_headers(letter: DeadLetter, topology: str, *, keep_anchors: bool = False) -> list[Header]:
    """The headers that a record gets when it is put back: its own, for a tuple without its anchors.

    The trees of its anchors have ended, or were replayed under new roots, so nobody waits for its ack. Were one still
    open that the dead letter was acked for, a second ack would cancel the first, and the tree would time out.

    Args:
        letter: what is put back.
        topology: its name.
        keep_anchors: whether a tuple is put back with them all the same.
    """
    if keep_anchors or not letter.topic.startswith(tuples_topic(topology, "")):
        return list(letter.headers)
    return [header for header in letter.headers if header[0] not in (ANCHORS_HEADER, ANCHOR_COUNTS_HEADER)]
