"""Which bolts are chained: they run in the tasks of the component that they receive from."""

from collections.abc import Mapping, Sequence
from typing import Any

from spout_sdk.errors import TopologyError
from spout_sdk.state.bolt import AnyStatefulBolt
from spout_sdk.windows.bolt import WindowedBolt
from tuple_tree.components import BoltManifest, SpoutManifest, Subscription


def with_chains(
    spouts: Sequence[SpoutManifest], bolts: Sequence[BoltManifest], made: Mapping[str, Any]
) -> list[BoltManifest]:
    """The bolts, those that are chained with the tasks of their source.

    A `local_or_shuffle` grouping becomes `local` where the bolt can be chained, and has as many tasks as its source.

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
                f"bolt {bolt.name!r} cannot be chained to {local.source!r}: {why}; or use shuffle_grouping or another "
                "grouping, by which it receives its tuples through Kafka"
            )
        if why or not (source := self._source(bolt)):
            return bolt
        if local is None and source.tasks != bolt.tasks:
            return bolt
        if bolt.tasks not in (1, source.tasks):
            raise TopologyError(
                f"bolt {bolt.name!r} is chained to {source.name!r} and given tasks={bolt.tasks}: it runs in the "
                f"{source.tasks} tasks of {source.name!r}, so leave tasks out"
            )
        (each,) = bolt.subscriptions
        chained = each.model_copy(update={"grouping": "local"})
        return bolt.model_copy(update={"tasks": source.tasks, "subscriptions": (chained,)})

    def _source(self, bolt: BoltManifest) -> SpoutManifest | BoltManifest | None:
        """The component that a bolt receives from; None if that is not declared, which the manifest's check rejects."""
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
        """Why a bolt cannot be chained, and what to do; empty if it can."""
        source, made = self._declared.get(subscription.source), self._made.get(bolt.name)
        if len(bolt.subscriptions) > 1:
            return "a chained bolt has one subscription, and it has several: leave the others out"
        if bolt.external or (source is not None and source.external):
            return "one of them is external, and a chained bolt runs in the process of its source: run both in the SDK"
        if _is(made, AnyStatefulBolt):
            return "it has a state, whose keys have to reach one task each: use fields_grouping"
        if _is(made, WindowedBolt):
            return "its windows hold inputs by their offsets in its inbox, and a chained bolt has none"
        if _is(self._made.get(subscription.source), WindowedBolt):
            return "what windows emit belongs to many inputs that stay open: chain it to a bolt behind them"
        return ""


def _is(made: Any, kind: type) -> bool:
    return issubclass(made if isinstance(made, type) else type(made), kind)
