"""The bases of all spouts and bolts.

Each task has its own instance and its own thread; do not use a collector from another thread. Use `AsyncBolt` for work
that waits for other services.
"""

from collections.abc import Sequence
from typing import ClassVar

from spout_sdk.api.needs import Needs
from tuple_tree.streams import Stream


class AnySpout:
    """Base of all kinds of spouts.

    Attributes:
        needs: what the kind needs of a task.
    """

    needs: ClassVar[Needs] = Needs("a Spout")
    streams: Sequence[Stream] = ()


class AnyBolt:
    """Base of all kinds of bolts.

    Attributes:
        needs: what the kind needs of a task.
    """

    needs: ClassVar[Needs] = Needs()
    streams: ClassVar[Sequence[Stream]] = ()
