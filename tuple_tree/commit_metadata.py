"""Commits of bolts and spouts: an offset, and metadata, such as `2:attempt=4;done=AQEBAAA=`, with texts by name."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from tuple_tree.done_sets import DoneSet
from tuple_tree.errors import CommitError
from tuple_tree.pages import page

LARGEST_METADATA: Final = 4_096
"""Bytes that a broker takes: its `offset.metadata.max.bytes`, unless set otherwise."""

REFRESH_SECONDS: Final = 3_600.0
"""After how long a commit that has not changed is committed again.

A broker forgets an offset of a topic that no member of the group subscribes to, 7 days after its last commit unless set
otherwise (`offsets.retention.minutes`)."""

ATTEMPT: Final = "attempt"
"""A spout: the first attempt that no owner of the partition has used."""
BEGIN: Final = "begin"
"""A spout: the offset before which no owner of the partition has emitted a message."""
DONE: Final = "done"
"""The text of a `DoneSet`."""
EMITTED: Final = "emitted"
"""A spout: the offset from which on no owner of the partition has emitted a message."""
NOTICES: Final = "notices"
"""A Spark spout: the offset of its notices from which the outcomes of open messages have to be read."""
_VERSION: Final = "2"
# `read` is of windows of version 0.2, which held tuples.
_NAMES: Final = frozenset((ATTEMPT, BEGIN, DONE, EMITTED, NOTICES, "read"))


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit of a partition.

    Attributes:
        offset: everything before it is done.
        metadata: of Kafka's commit; it has what is done past the offset.
        left_out: how many offsets and tuples that are done past the offset did not fit into the metadata.
    """

    offset: int
    metadata: str
    left_out: int = 0

    @classmethod
    def of(
        cls, done: DoneSet, texts: Mapping[str, str] = MappingProxyType({}), most: int = LARGEST_METADATA
    ) -> "Commit":
        """A commit of what is done, with other texts by name, in metadata of `most` bytes."""
        room = most - len(commit_metadata({**texts, DONE: "="}))
        fitted = done.fitted(room)
        return cls(done.offset, commit_metadata({**texts, DONE: fitted.text}), done.size - fitted.size)


def commit_metadata(texts: Mapping[str, str]) -> str:
    """The metadata with these texts by name; empty ones are left out."""
    named = ";".join(f"{name}={text}" for name, text in texts.items() if text)
    return named and f"{_VERSION}:{named}"


def read_commit_metadata(offset: int, metadata: str | None) -> Mapping[str, str] | None:
    """The texts of the metadata of a committed offset, by name; None where another program has committed.

    Raises `CommitError` if another version has.
    """
    version, _, named = (metadata or "").partition(":")
    texts = {name: text for name, _, text in (each.partition("=") for each in named.split(";"))}
    if _NAMES.isdisjoint(texts):
        return None
    if version != _VERSION:
        raise CommitError(
            f"the commit at offset {offset} has metadata of version {version}, and this program reads version "
            f"{_VERSION}: run the version that committed it, or reset the offsets of its group, see "
            f"{page('upgrading.md')}"
        )
    return texts
