"""The bases of all spouts and bolts.

Each task has its own instance and its own thread; do not use a collector from another thread. Use `AsyncBolt` for work
that waits for other services.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from spout_sdk.api.needs import Needs
from tuple_tree.streams import Stream


class AnySpout:
    """Base of all kinds of spouts.

    Attributes:
        task_source: makes the source that calls an instance, in a task; for the SDK's use.
        needs: what the kind needs of a task.
    """

    task_source: ClassVar[Callable[..., Any]]
    needs: ClassVar[Needs] = Needs("a Spout")
    streams: Sequence[Stream] = ()


class AnyBolt:
    """Base of all kinds of bolts.

    Attributes:
        task_operator: makes the operator that calls an instance, in a task; for the SDK's use.
        needs: what the kind needs of a task.
    """

    task_operator: ClassVar[Callable[..., Any]]
    needs: ClassVar[Needs] = Needs()
    streams: ClassVar[Sequence[Stream]] = ()
