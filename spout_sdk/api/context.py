"""The context of a task: its component and topology; hooks, called when a task emits, executes, acks or fails."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from spout_sdk.records import Clock
from spout_sdk.statistics.stats import Counters
from tuple_tree.manifest import Manifest
from tuple_tree.streams import DEFAULT_STREAM

if TYPE_CHECKING:
    from spout_sdk.api.tuples import Tuple
    from tuple_tree.messages import Failure


class TaskId(NamedTuple):
    """A task of a component.

    Attributes:
        component: its name.
        task: which of its tasks, from 0.
    """

    component: str
    task: int

    def __str__(self) -> str:
        return f"{self.component}/{self.task}"


@dataclass(frozen=True, slots=True)
class EmitInfo:
    """A tuple was emitted.

    Attributes:
        values: one for each field of the stream.
        stream: the stream that it was emitted to.
        tasks: the tasks that receive a copy.
        message_id: the id that the spout gave it; None for an untracked tuple and for bolts.
        anchors: for a bolt, the inputs that it is anchored to.
        root: for a spout, the root of its tree; None for an untracked tuple.
    """

    values: Sequence[Any]
    stream: str
    tasks: "tuple[TaskId, ...]"
    message_id: Any = None
    anchors: "Sequence[Tuple]" = field(default=(), compare=False)
    root: int | None = field(default=None, compare=False)

    @property
    def roots(self) -> tuple[int, ...]:
        """The roots of the trees that it joins; empty for an untracked tuple."""
        if self.root is not None:
            return (self.root,)
        return tuple(dict.fromkeys(root for anchor in self.anchors for root in anchor.roots))


class TaskHook:
    """Your code, called when a task emits, executes, acks or fails; override the methods that you need.

    A hook belongs to one task and runs in its thread. An exception of a hook is logged and counted as an error, and
    changes nothing: a tuple that was acked stays acked. An exception in `prepare` counts as raised by the component.
    """

    def prepare(self, context: "TaskContext") -> None:
        """The task begins; called when the hook is added."""

    def cleanup(self) -> None:
        """The task ends."""

    def emit(self, emitted: EmitInfo) -> None:
        """A spout or bolt has emitted."""

    def spout_ack(self, message_id: Any, seconds: float) -> None:
        """A tree was fully processed, `seconds` after its tuple was emitted; called before the spout's `ack`."""

    def spout_fail(self, message_id: Any, failure: "Failure") -> None:
        """A tree has failed; called before the spout's `fail`."""

    def bolt_execute(self, tuple_: "Tuple", seconds: float) -> None:
        """`execute` has returned, or raised, after `seconds`."""

    def bolt_ack(self, tuple_: "Tuple") -> None:
        """A bolt has acked a tuple."""

    def bolt_fail(self, tuple_: "Tuple", message: str) -> None:
        """A bolt has failed a tuple."""


HookFactory = Callable[[], TaskHook]
"""Makes the hook of one task: a class, or a callable without arguments."""


class TaskContext:
    """The context of a task, passed to `open` and `prepare`.

    Attributes:
        manifest: the components, streams and groupings of the topology.
        topology: name of the topology.
        component: name of the spout or bolt.
        task: which of its tasks this is, from 0.
        tasks: how many tasks the component has.
        hooks: the hooks of this task.
        kafka: librdkafka properties with which this process was started, `bootstrap.servers` and secrets included, for
            clients of your own; empty in a simulated cluster.
    """

    __slots__ = ("_clock", "_counters", "component", "hooks", "kafka", "manifest", "task", "tasks", "topology")

    def __init__(
        self,
        manifest: Manifest,
        component: str,
        task: int,
        counters: Counters,
        clock: Clock,
        kafka: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self.manifest = manifest
        self.topology = manifest.topology
        self.component = component
        self.task = task
        self.tasks = manifest.component(component).tasks
        self.hooks: list[TaskHook] = []
        self.kafka = MappingProxyType(dict(kafka))
        self._counters = counters
        self._clock = clock

    def now(self) -> float:
        """Monotonic seconds by the clock of the task; simulated seconds in a simulated cluster."""
        return self._clock()

    def count(self, name: str, n: int = 1) -> None:
        """Adds to your own counter, which the stats show under `counters`."""
        users = self._counters.users
        # The stats are JSON, which has no numpy integers.
        users[name] = users.get(name, 0) + int(n)

    def add_hook(self, hook: TaskHook) -> None:
        """Adds a hook, which is called from now on."""
        hook.prepare(self)
        self.hooks.append(hook)

    def targets(self, stream: str = DEFAULT_STREAM) -> tuple[TaskId, ...]:
        """All tasks that may receive tuples of a stream of this component."""
        return tuple(
            TaskId(bolt.name, task)
            for bolt in self.manifest.bolts
            if any((each.source, each.stream) == (self.component, stream) for each in bolt.subscriptions)
            for task in range(bolt.tasks)
        )

    def __repr__(self) -> str:
        return f"<TaskContext {self.topology}: {self.component}/{self.task} of {self.tasks}>"
