"""Records of outcomes: what became of a message of a spout, when, and after how many attempts.

Several topologies may read one source and write to one topic. So the headers of a record name the topology and the
spout that have written it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from tuple_tree.components import OutcomesCodec
from tuple_tree.manifest import Manifest
from tuple_tree.streams import StreamDeclaration, declare

Outcome = Literal["acked", "dead-letter", "skipped"]
"""The ways in which a message ends.

- `acked`: its tree was fully processed.
- `dead-letter`: it was given up, could not be read, is no longer in its topic, or a tuple of its tree became a dead
  letter, and the others were processed.
- `skipped`: `translate` returned None.
"""

_MOST_CHARACTERS: Final = 2_000  # of the text of a failure

TOPOLOGY_HEADER: Final = "topology"
SPOUT_HEADER: Final = "spout"


class OutcomeRecord(NamedTuple):
    """The fields of a record.

    Attributes:
        topic, partition, offset: the message.
        outcome: what became of it.
        attempts: how often it was delivered.
        first_emit, end: milliseconds since the epoch.
        reason: of the last failure; empty without one.
        component: the one that failed it last; empty where none did.
        failure: the text of the last failure.
    """

    topic: str
    partition: int
    offset: int
    outcome: Outcome
    attempts: int
    first_emit: int
    end: int
    reason: str = ""
    component: str = ""
    failure: str = ""


def outcome_stream(codec: OutcomesCodec = "json") -> StreamDeclaration:
    """The stream with whose codec outcomes are written; a `KafkaSpout` with this stream reads them.

    Its fields are those of `OutcomeRecord`.
    """
    types = {name: int if kind is int else str for name, kind in OutcomeRecord.__annotations__.items()}
    return declare(types, codec=codec)


def failure_text(text: str) -> str:
    """The text of a failure as a record takes it; it may have half of a surrogate pair, which UTF-8 cannot encode."""
    return text[:_MOST_CHARACTERS].encode(errors="backslashreplace").decode()


def outcome_headers(topology: str, spout: str) -> list[tuple[str, bytes]]:
    """The headers of an outcome: whose message it is about."""
    return [(TOPOLOGY_HEADER, topology.encode()), (SPOUT_HEADER, spout.encode())]


@dataclass(frozen=True, slots=True)
class OutcomesOf:
    """Recognises the outcomes of a spout in a topic to which others may write as well.

    Attributes:
        is_alone: whether no other spout writes to the topic. Only then records without headers count: version
            0.2 and earlier ones have written none.
    """

    topology: str
    spout: str
    is_alone: bool

    @classmethod
    def among(cls, manifest: Manifest, spout: str, published: Mapping[str, object] | None) -> "OutcomesOf":
        """The outcomes of a spout in its topic.

        Args:
            published: topology → its manifest, of all that are published; anything else in place of one that cannot
                be read. None if they are not known.
        """
        is_alone = published is not None and not other_writers(manifest, spout, published)
        unreadable = [name for name, each in (published or {}).items() if not isinstance(each, Manifest)]
        return cls(manifest.topology, spout, is_alone and not {*unreadable} - {manifest.topology})

    def have(self, headers: Any) -> bool:
        """Whether a record with these headers is one of them."""
        found = dict(headers or ())
        named = [found[name] == value for name, value in outcome_headers(self.topology, self.spout) if name in found]
        return all(named) if named else self.is_alone


def other_writers(manifest: Manifest, spout: str, published: Mapping[str, object]) -> list[tuple[str, str]]:
    """Topology and name of the other spouts that write their outcomes to the topic of a spout."""
    topic = manifest.outcome_topics.get(spout)
    manifests = {**published, manifest.topology: manifest}
    return [
        (name, other)
        for name, each in sorted(manifests.items())
        if isinstance(each, Manifest)
        for other, of_other in each.outcome_topics.items()
        if of_other == topic and (name, other) != (manifest.topology, spout)
    ]
