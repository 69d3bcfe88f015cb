"""`Upstream`: the components that emit rows of a type, and how the bolts behind them receive these."""

from collections.abc import Callable
from typing import Any, Generic, Literal, Protocol, TypeVar

from spout_sdk.api.row_types import RowType
from spout_sdk.api.topology import Topology
from spout_sdk.errors import TopologyError
from spout_sdk.steps.options import FailureOptions
from spout_sdk.steps.resources import Resource

T = TypeVar("T")


class Builder(Protocol):
    """The part of `TopologyBuilder` that streams use."""

    @property
    def set_bolt(self) -> Callable[..., Any]: ...
    def resource(self, function: Callable[[], Any]) -> None: ...
    def tasks_of(self, component: str) -> int: ...

    resources: dict[Any, Resource]

    def free_name(self, name: str) -> str: ...
    def build(self) -> Topology: ...


class Upstream(Generic[T]):
    """Base of streams.

    Args:
        components: that emit the rows.
        row_type: the type of the rows; None if it is not known.
        grouping: how the tasks of the next bolt share the rows: `local` ones stay in their task if they can.
        fields: the members of a `fields` grouping.

    Attributes:
        builder: of the topology.
    """

    def __init__(
        self,
        builder: Builder,
        components: tuple[str, ...],
        row_type: RowType[T] | None,
        grouping: Literal["local", "shuffle", "fields"] = "local",
        fields: tuple[str, ...] = (),
    ) -> None:
        self.builder, self._components, self._row_type = builder, components, row_type
        self._grouping, self._fields = grouping, fields

    @property
    def name(self) -> str:
        """The name of the component that emits it; the names of several, with commas."""
        return ", ".join(self._components)

    def topology(self) -> Topology:
        """Checks the topology, and returns it: `TopologyBuilder.build`."""
        return self.builder.build()

    def _known_type(self, method: str) -> RowType[T]:
        if self._row_type is None:
            raise TopologyError(
                f"the rows of {self.name} have no type, which {method}() needs: give KafkaSpout(value=...), or add a "
                "step with a type before it"
            )
        return self._row_type

    def _add(self, name: str, bolt: Any, tasks: int | None, *others: "Upstream[Any]", **options: Any) -> None:
        """Adds a bolt that receives the rows, and those of others."""
        if unknown := [option for option in options if option not in FailureOptions.__optional_keys__]:
            known = ", ".join(sorted(FailureOptions.__optional_keys__))
            raise TopologyError(f"step {name!r} has no option {unknown[0]!r}: beside its arguments it has {known}")
        own = self.builder.tasks_of(self._components[0])
        is_local = self._grouping == "local" and tasks in (None, own) and len(self._components) == 1
        if tasks is None:
            tasks = own if is_local else 1
        declarer = self.builder.set_bolt(name, bolt, tasks, **options)
        for stream in (self, *others):
            for component in stream._components:
                if stream._grouping == "fields":
                    declarer.fields_grouping(component, stream._fields)
                elif is_local:
                    declarer.local_or_shuffle_grouping(component)
                else:
                    declarer.shuffle_grouping(component)
