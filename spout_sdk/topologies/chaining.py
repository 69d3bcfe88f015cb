"""Decides which bolts are chained, that is, run in the tasks of their source."""

from collections.abc import Mapping, Sequence
from typing import Any

from spout_sdk.api.needs import needs_of
from spout_sdk.errors import TopologyError
from tuple_tree.components import BoltManifest, SpoutManifest, Subscription


def with_chains(
    spouts: Sequence[SpoutManifest], bolts: Sequence[BoltManifest], made: Mapping[str, Any]
) -> list[BoltManifest]:
    """The bolts with their final groupings; a chained bolt gets the number of tasks of its source.

    A `local_or_shuffle` grouping becomes `local` if the bolt can be chained and has as many tasks as its source.

    Raises:
        TopologyError: if a bolt with a `local` grouping cannot be chained.
    """
    declared: list[SpoutManifest | BoltManifest] = [*spouts, *bolts]
    chains = _Chains({each.name: each for each in declared}, made)
    return [chains.resolved(bolt.name) for bolt in bolts]  # type: ignore[misc]


class _Chains:
    def __init__(self, declared: Mapping[str, SpoutManifest | BoltManifest], made: Mapping[str, Any]) -> None:
        self._declared = declared
        self._made = made
        self._resolved: dict[str, SpoutManifest | BoltManifest] = {}
        self._ahead: list[str] = []

    def resolved(self, name: str) -> SpoutManifest | BoltManifest:
        if name not in self._resolved:
            declared = self._declared[name]
            is_bolt = isinstance(declared, BoltManifest) and any(
                each.grouping in ("local", "local_or_shuffle") for each in declared.subscriptions
            )
            self._resolved[name] = self._bolt(declared) if is_bolt else declared  # type: ignore[arg-type]
        return self._resolved[name]

    def _bolt(self, bolt: BoltManifest) -> BoltManifest:
        local = next((each for each in bolt.subscriptions if each.grouping == "local"), None)
        why = self._why_not(bolt, local or bolt.subscriptions[0])
        if local is not None and why:
            raise TopologyError(
                f"bolt {bolt.name!r} cannot be chained to {local.source!r}: {why}; or use another grouping, such as "
                "shuffle_grouping, so that it receives its tuples through Kafka"
            )
        if why or not (source := self._source(bolt)):
            return bolt
        if local is None and source.tasks != bolt.tasks:
            return bolt
        if bolt.tasks not in (1, source.tasks):
            raise TopologyError(
                f"bolt {bolt.name!r} is chained to {source.name!r} and has tasks={bolt.tasks}: it runs in the "
                f"{source.tasks} tasks of {source.name!r}, so leave tasks out"
            )
        (each,) = bolt.subscriptions
        chained = each.model_copy(update={"grouping": "local"})
        return bolt.model_copy(update={"tasks": source.tasks, "subscriptions": (chained,)})

    def _source(self, bolt: BoltManifest) -> SpoutManifest | BoltManifest | None:
        """The source of a bolt; None if it is not declared, which the manifest's check rejects later."""
        name = bolt.subscriptions[0].source
        if name not in self._declared:
            return None
        if bolt.name in self._ahead:
            circle = ", ".join(self._ahead[self._ahead.index(bolt.name) :])
            raise TopologyError(f"{circle} are chained in a circle: use another grouping for one of them")
        self._ahead.append(bolt.name)
        try:
            return self.resolved(name)
        finally:
            self._ahead.pop()

    def _why_not(self, bolt: BoltManifest, subscription: Subscription) -> str:
        """The reason why a bolt cannot be chained, and a fix; an empty string if it can be chained."""
        source = self._declared.get(subscription.source)
        if len(bolt.subscriptions) > 1:
            return "it has several subscriptions, and a chained bolt has one: remove the others"
        if bolt.external or (source is not None and source.external):
            return "one of them is external, and a chained bolt runs in the process of its source: run both in the SDK"
        if needs_of(self._made.get(bolt.name)).state:
            return "it has a state, and all tuples of a key must reach the same task: use fields_grouping"
        return ""
