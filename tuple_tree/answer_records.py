"""Answers of bolts to the messages of spouts, and the outcomes of these messages, as records of `{topology}.answers`.

The answers of a tree and the outcome of its message are in one partition, by the root of the tree. A tuple is acked
when its answer is delivered, so for any reader the answers of an acked tree precede the outcome of its message.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal

from tuple_tree.ids import ID_BYTES

Kind = Literal["answer", "outcome", "attempt"]
"""The kinds of records. An `attempt` begins a tree whose root an earlier attempt at the message has had: the answers of
that root before it do not count."""

KIND_HEADER: Final = "kind"
_KINDS: Final[dict[object, Kind]] = {b"answer": "answer", b"outcome": "outcome", b"attempt": "attempt"}


def answer_partition(root: int, partitions: int) -> int:
    """The partition of the records of a tree, of as many as the ack log has."""
    return root % partitions


def tree_key(root: int) -> bytes:
    """The key of the records of a tree: its root, big-endian."""
    return root.to_bytes(ID_BYTES, "big")


def root_of_key(key: bytes | None) -> int | None:
    """The root of a record; None of the outcome of a message that was in no tree when it ended."""
    return int.from_bytes(key, "big") if key and len(key) == ID_BYTES else None


def kind_header(kind: Kind) -> tuple[str, bytes]:
    """The header that says which kind of record it is."""
    return KIND_HEADER, kind.encode()


def kind_of(headers: Mapping[str, Any]) -> Kind | None:
    """The kind of a record; None of one that is none of these."""
    return _KINDS.get(headers.get(KIND_HEADER))
