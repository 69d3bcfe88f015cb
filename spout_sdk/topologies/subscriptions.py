"""The subscriptions of bolts as declared, resolved to the components that emit."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from spout_sdk.errors import TopologyError
from spout_sdk.groupings import BoltDeclarer
from tuple_tree.components import BoltManifest
from tuple_tree.routing import CustomFactory
from tuple_tree.streams import DEFAULT_STREAM

Edge = tuple[str, str, str]
"""Emitting component, stream, and receiving bolt."""


class Subscribed(NamedTuple):
    """Bolts with their subscriptions, the custom groupings, and the shuffles that do not follow the load."""

    bolts: list[BoltManifest]
    groupings: dict[Edge, CustomFactory]
    even_shuffles: frozenset[Edge]


def subscribed(declared: Sequence[tuple[BoltManifest, BoltDeclarer]], results: Mapping[str, str]) -> Subscribed:
    """The bolts with what they receive.

    Args:
        results: bolt with windows → the spout that reads the results of its windows, in place of the bolt.

    Raises:
        TopologyError: if a bolt receives nothing.
    """

    def resolved(edge: Edge) -> Edge:
        source, stream, bolt = edge
        return results.get(source, source) if stream == DEFAULT_STREAM else source, stream, bolt

    bolts, groupings, even_shuffles = list[BoltManifest](), dict[Edge, CustomFactory](), set[Edge]()
    for bolt, declarer in declared:
        if not declarer.subscriptions:
            raise TopologyError(
                f"bolt {bolt.name!r} receives nothing: call shuffle_grouping() or another grouping on "
                f"what set_bolt({bolt.name!r}, ...) returns"
            )
        received = tuple(
            each.model_copy(update={"source": resolved((each.source, each.stream, bolt.name))[0]})
            for each in declarer.subscriptions
        )
        bolts.append(bolt.model_copy(update={"subscriptions": received}))
        groupings |= {resolved(edge): factory for edge, factory in declarer.groupings.items()}
        even_shuffles |= {resolved(edge) for edge in declarer.even_shuffles}
    return Subscribed(bolts, groupings, frozenset(even_shuffles))
