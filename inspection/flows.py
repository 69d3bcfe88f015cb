"""How many tuples pass along each edge of a topology, from what its components count."""

from collections.abc import Mapping

from tuple_tree.manifest import Manifest

Edge = tuple[str, str, str]
"""Source, stream, target."""


def edges_of(manifest: Manifest) -> dict[Edge, str]:
    """Each edge of a topology, in order, with its grouping."""
    return {
        (subscription.source, subscription.stream, bolt.name): subscription.grouping
        for bolt in manifest.bolts
        for subscription in bolt.subscriptions
    }


def flows(manifest: Manifest, sent: Mapping[str, float], taken: Mapping[str, float]) -> dict[Edge, float | None]:
    """Tuples a second along each edge; None where the counts of the components do not tell the edges apart.

    A component counts what it sends on all edges together, and a bolt what it takes from all. An edge that is alone at
    one of its ends is known by that end; what is left of the others is then shared by fewer.
    """
    edges = list(edges_of(manifest))
    found: dict[Edge, float | None] = dict.fromkeys(edges)
    ends = [(sent, 0), (taken, 2)]
    settled = True
    while settled:
        settled = False
        for counts, end in ends:
            for name, total in counts.items():
                own = [edge for edge in edges if edge[end] == name]
                unknown = [edge for edge in own if found[edge] is None]
                if len(unknown) == 1:
                    found[unknown[0]] = max(0.0, total - sum(found[edge] or 0.0 for edge in own))
                    settled = True
    return found
