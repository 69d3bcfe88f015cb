"""A plain model of anchored tuples, by the rules of `schemas/README.md`."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from tuple_tree.anchors import Edges


@dataclass(eq=False)
class AnchoredTuple:
    """A tuple that was delivered."""

    edges: Edges
    out: Edges = field(default_factory=dict, kw_only=True)
    """Root → XOR of the edges of its children in that tree."""

    def ack_vals(self) -> list[tuple[int, int]]:
        """The entries of its ack: root and val."""
        return [(root, edge ^ self.out.get(root, 0)) for root, edge in self.edges.items()]


def new_child(anchors: Iterable[AnchoredTuple], edge: int) -> Edges:
    """The edges of a child, which in each tree one of its anchors gets."""
    owners = {root: anchor for anchor in anchors for root in anchor.edges}
    for root, owner in owners.items():
        owner.out[root] = owner.out.get(root, 0) ^ edge
    return dict.fromkeys(owners, edge)
