"""The known facts about a running topology at a moment."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from inspection.view import ComponentView, Snapshot
from tuple_tree.components import BoltManifest, Component
from tuple_tree.control import ControlState
from tuple_tree.manifest import Manifest
from tuple_tree.names import acker_group, component_group


@dataclass(frozen=True, slots=True)
class LagChange:
    """The lag of a group on a partition, read twice, and the records that it has done in between."""

    group: str
    topic: str
    partition: int
    seconds: float  # between the two
    before: int
    after: int
    done: int

    @property
    def rate(self) -> float:
        return self.done / self.seconds if self.seconds > 0 else 0.0

    @property
    def growth(self) -> float:
        return (self.after - self.before) / self.seconds if self.seconds > 0 else 0.0


@dataclass(frozen=True, slots=True)
class OpenMessage:
    """The oldest unfinished message of a partition of a spout's source, at which the offset of its group stays."""

    group: str
    topic: str
    partition: int
    offset: int
    failures: int  # 0 where they did not fit into the metadata of the commit
    age_seconds: float | None  # since it was written; None where it cannot be read
    done_ahead: int
    open_ahead: int  # itself included


@dataclass(frozen=True)
class Observation:
    """A topology as its processes and its groups report it.

    Attributes:
        snapshot: the figures of its processes; all of its components have no process where no statistics are known.
        lag_changes: lags of groups, over some seconds.
        members: group → members; None without a DESCRIBE ACL. Empty if groups were not described: then the processes
            with statistics count.
        control: its requested state; what follows from that is not a finding, see `verdict.EXPECTED`.
        problem: why the groups and topics could not be read; empty if they were.
    """

    manifest: Manifest
    snapshot: Snapshot
    lag_changes: tuple[LagChange, ...] = ()
    open_messages: tuple[OpenMessage, ...] = ()
    members: Mapping[str, int | None] = field(default_factory=dict)
    control: ControlState = "running"
    problem: str = ""

    @cached_property
    def components(self) -> Mapping[str, ComponentView]:
        return {each["name"]: each for each in self.snapshot["components"]}

    @cached_property
    def readers(self) -> Mapping[str, Component]:
        return {component_group(self.topology, each.name): each for each in self.manifest.heads}

    @property
    def topology(self) -> str:
        return self.manifest.topology

    def processes(self, component: str) -> int | None:
        """How many processes run a component; None if that is not known."""
        if self.members:
            return self.members.get(component_group(self.topology, component))
        return self.components[component]["processes"]

    @property
    def ackers(self) -> int | None:
        """How many acker workers serve the topology; None if that is not known."""
        return self.members.get(acker_group(self.topology)) if self.members else len(self.snapshot["workers"])

    @property
    def is_running(self) -> bool:
        """Whether any component has a process; acker workers may serve other topologies, so they do not count."""
        return any(self.processes(component.name) for component in self.manifest.heads)

    @property
    def has_external(self) -> bool:
        return any(component.external for component in self.manifest.components)

    def lag(self, group: str) -> int:
        return sum(each.after for each in self.lag_changes if each.group == group)

    def timeout_s(self, bolt: str) -> float:
        """The shortest message timeout of the spouts whose trees reach a component."""
        spouts = self.manifest.spouts_upstream(bolt) or self.manifest.spouts
        return min((spout.timeout_ms for spout in spouts), default=0) / 1000

    def patience_s(self, head: str) -> float:
        """Seconds for which an input of a component may be open.

        A message timeout, and the time limits of the component and of the bolts that are chained to it.
        """
        names = (head, *(bolt.name for bolt in self.manifest.chained_to(head)))
        limits_ms = sum(self.components[name]["settings"].get("time_limit_ms", 0) for name in names)
        return self.timeout_s(head) + limits_ms / 1000

    def downstream(self, spout: str) -> list[BoltManifest]:
        return [
            bolt
            for bolt in self.manifest.bolts
            if any(each.name == spout for each in self.manifest.spouts_upstream(bolt.name))
        ]

    def with_chained(self, head: Component) -> str:
        """Names a component and the bolts that run in its tasks, to begin a sentence."""
        chained = [bolt.name for bolt in self.manifest.chained_to(head.name)]
        named = f"{head.kind.capitalize()} {head.name}"
        return f"{named} with {', '.join(chained)}, chained to it" if chained else named
