"""Anchoring: how a tuple joins the trees of the tuples that it was made from.

Every tuple knows, for each root that it belongs to, the edge id under which it was delivered (`edges`), and keeps the
XOR of the edges that it handed to its children (`out`). Acking it sends `edge ^ out` for each root: the ack takes its
own edge out of the checksum and puts its children's in, in one message.

The `anchors` header carries `edges`: root and edge of each anchor, 16 bytes a pair, big-endian, back to back.
"""

import struct
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from tuple_tree.errors import WireError

ANCHORS_HEADER: Final = "anchors"
SOURCE_HEADER: Final = "source"
PAIR_BYTES: Final = 16

Edges = dict[int, int]
"""root id → edge id."""

_one_pair: Final = struct.Struct(">QQ")


class Anchor(Protocol):
    """What a tuple must have to be anchored to."""

    out: int

    @property
    def edges(self) -> Edges:
        """Root id → edge id of its delivery."""
        ...


def new_child(anchors: Iterable[Anchor], next_edge: Callable[[], int]) -> Edges:
    """Makes the edges of one delivery of one child, and books them with its anchors.

    For each anchor one fresh edge, which joins the child to every root of that anchor. Anchors that share a root, or
    the same anchor twice, are XORed together, so the tree still completes.

    Args:
        anchors: the tuples that the child was made from; none for an untracked child.
        next_edge: returns a fresh random id.

    Returns:
        The child's `edges`, empty if no anchor is tracked.
    """
    edges: Edges = {}
    for anchor in anchors:
        if not anchor.edges:
            continue
        edge = next_edge()
        anchor.out ^= edge
        for root in anchor.edges:
            edges[root] = edges.get(root, 0) ^ edge
    return edges


def ack_vals(anchor: Anchor) -> list[tuple[int, int]]:
    """What acking this tuple tells the acker: `(root, ack val)` for each of its roots."""
    out = anchor.out
    return [(root, edge ^ out) for root, edge in anchor.edges.items()]


pack_anchor: Final = _one_pair.pack
"""The value of the `anchors` header of one root and one edge: 16 bytes."""


unpack_anchor: Final = _one_pair.unpack
"""Root and edge of such a value."""


def pack_anchors(edges: Edges) -> bytes:
    """The value of the `anchors` header: `16 * len(edges)` bytes."""
    return b"".join(_one_pair.pack(root, edge) for root, edge in edges.items())


def unpack_anchors(header: bytes) -> Edges:
    """Reads the `anchors` header; a root that stands twice is XORed together.

    Raises:
        WireError: if the length is no multiple of 16.
    """
    if len(header) == PAIR_BYTES:
        root, edge = _one_pair.unpack(header)
        return {root: edge}
    if len(header) % PAIR_BYTES:
        raise WireError(
            "ragged-anchors", f"the anchors header has {len(header)} bytes, which is no multiple of {PAIR_BYTES}"
        )
    edges: Edges = {}
    for root, edge in _one_pair.iter_unpack(header):
        edges[root] = edges.get(root, 0) ^ edge
    return edges
