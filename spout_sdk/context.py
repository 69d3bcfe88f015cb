"""What a task knows about itself."""

from spout_sdk.counters import Counters
from spout_sdk.records import Clock


class TaskContext:
    """Handed to `open` and `prepare`.

    Attributes:
        topology: name of the topology.
        component: name of the spout or bolt.
        task: which of its tasks this is, from 0.
        tasks: how many it has.
        now: returns the time of the task's clock, in monotonic seconds; in tests with simulated time, the simulated.
    """

    __slots__ = ("_counters", "component", "now", "task", "tasks", "topology")

    def __init__(self, topology: str, component: str, task: int, tasks: int, counters: Counters, clock: Clock) -> None:
        self.topology = topology
        self.component = component
        self.task = task
        self.tasks = tasks
        self.now = clock
        self._counters = counters

    def count(self, name: str, n: int = 1) -> None:
        """Adds to a counter of your own, which appears in the stats under `counters`."""
        users = self._counters.users
        users[name] = users.get(name, 0) + n

    def __repr__(self) -> str:
        return f"<TaskContext {self.topology}: {self.component}/{self.task} of {self.tasks}>"
