"""Groupings: the subscriptions of a bolt, groupings of your own, and the tasks that direct groupings choose among.

from spout_sdk.groupings import CustomGrouping
"""

from collections.abc import Sequence

from spout_sdk.api.context import TaskId
from spout_sdk.api.signatures import check_signatures
from spout_sdk.errors import TopologyError
from tuple_tree.components import Grouping, Subscription
from tuple_tree.routing import CustomFactory, CustomGrouping
from tuple_tree.streams import DEFAULT_STREAM

__all__ = ["BoltDeclarer", "CustomGrouping", "TaskId"]


class BoltDeclarer:
    """Declares the streams that a bolt receives; each method adds a subscription and returns the declarer.

    Attributes:
        subscriptions: the subscriptions so far.
        groupings: emitting component, stream and bolt → factory of the custom grouping.
        even_shuffles: emitting component, stream and bolt of the shuffle groupings that are not load-aware.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self.subscriptions: tuple[Subscription, ...] = ()
        self.groupings: dict[tuple[str, str, str], CustomFactory] = {}
        self.even_shuffles: set[tuple[str, str, str]] = set()

    def shuffle_grouping(self, source: str, stream: str = DEFAULT_STREAM, *, load_aware: bool = True) -> "BoltDeclarer":
        """Distributes the tuples of a stream over the bolt's tasks: evenly, unless the load of the tasks differs.

        Args:
            source: the component that emits.
            stream: one of its streams.
            load_aware: whether slow tasks receive fewer tuples, by the statistics that tasks publish; False for a round
                robin in any case. A component in Spark always distributes evenly.
        """
        if not load_aware:
            self.even_shuffles.add((source, stream, self._name))
        return self._subscribe(source, stream, "shuffle")

    def fields_grouping(self, source: str, fields: Sequence[str] | str, stream: str = DEFAULT_STREAM) -> "BoltDeclarer":
        """Sends tuples with equal values in these fields to the same task.

        The fields must be text, bytes, integers or booleans.
        """
        return self._subscribe(source, stream, "fields", fields)

    def global_grouping(self, source: str, stream: str = DEFAULT_STREAM) -> "BoltDeclarer":
        """Sends all tuples to the bolt's task with the lowest number."""
        return self._subscribe(source, stream, "global")

    def all_grouping(self, source: str, stream: str = DEFAULT_STREAM) -> "BoltDeclarer":
        """Sends a copy of every tuple to each task."""
        return self._subscribe(source, stream, "all")

    def partial_key_grouping(
        self, source: str, fields: Sequence[str] | str, stream: str = DEFAULT_STREAM
    ) -> "BoltDeclarer":
        """Sends tuples with equal values in these fields to two tasks, each tuple to the one that was sent fewer.

        This balances the load if some values are frequent. Results of the two tasks for a value must be merged
        downstream.
        """
        return self._subscribe(source, stream, "partial_key", fields)

    def local_grouping(self, source: str, stream: str = DEFAULT_STREAM) -> "BoltDeclarer":
        """Chains the bolt to its only source: it runs in the source's tasks, and its tuples do not pass through Kafka.

        It has the tasks, the processes and the delivery guarantee of its source. A bolt with a state or with windows
        cannot be chained.
        """
        return self._subscribe(source, stream, "local")

    def local_or_shuffle_grouping(self, source: str, stream: str = DEFAULT_STREAM) -> "BoltDeclarer":
        """As `local_grouping` if the bolt can be chained and has the tasks of its source; else `shuffle_grouping`."""
        return self._subscribe(source, stream, "local_or_shuffle")

    def none_grouping(self, source: str, stream: str = DEFAULT_STREAM) -> "BoltDeclarer":
        """Sends each tuple to any task; the same as `shuffle_grouping`."""
        return self._subscribe(source, stream, "none")

    def direct_grouping(self, source: str, stream: str = DEFAULT_STREAM) -> "BoltDeclarer":
        """Lets the emitting component choose the task, with `emit_direct`; the stream must be declared `direct`."""
        return self._subscribe(source, stream, "direct")

    def custom_grouping(self, source: str, factory: CustomFactory, stream: str = DEFAULT_STREAM) -> "BoltDeclarer":
        """Uses your own grouping.

        Args:
            source: the component that emits.
            factory: a `CustomGrouping` class, or a callable without arguments that returns one; called once for each
                task that emits.
            stream: one of the source's streams.
        """
        if isinstance(factory, type):
            check_signatures(f"custom grouping of bolt {self._name!r}", factory)
        self.groupings[source, stream, self._name] = factory
        return self._subscribe(source, stream, "custom")

    def _subscribe(
        self, source: str, stream: str, grouping: Grouping, fields: Sequence[str] | str = ()
    ) -> "BoltDeclarer":
        if any((known.source, known.stream) == (source, stream) for known in self.subscriptions):
            raise TopologyError(
                f"bolt {self._name!r} subscribes twice to stream {stream!r} of {source!r}: keep one grouping"
            )
        fields = (fields,) if isinstance(fields, str) else tuple(fields)
        self.subscriptions += (Subscription(source=source, stream=stream, grouping=grouping, fields=fields),)
        return self
