"""The bases of all spouts and bolts.

Each task has its own instance and its own thread; do not use a collector from another thread. Use `AsyncBolt` for work
that waits for other services.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from spout_sdk.api.needs import Needs
from spout_sdk.api.row_types import RowType
from tuple_tree.streams import StreamDeclaration


class AnySpout:
    """Base of all kinds of spouts.

    Attributes:
        needs: what the kind needs of a task.
        streams: the streams that it emits to.
        row_types: stream → the type of its rows, for streams that have one.
    """

    needs: ClassVar[Needs] = Needs("a Spout")
    streams: Sequence[StreamDeclaration] = ()
    row_types: Mapping[str, RowType[Any]] = {}


class AnyBolt:
    """Base of all kinds of bolts.

    Attributes:
        needs: what the kind needs of a task.
        streams: the streams that it emits to.
        row_types: stream → the type of its rows, for streams that have one.
    """

    needs: ClassVar[Needs] = Needs()
    streams: ClassVar[Sequence[StreamDeclaration]] = ()
    row_types: Mapping[str, RowType[Any]] = {}
