"""External components: declared with the others, run by something else, such as Spark.

What they are declared with stays in the topology for whoever runs them: a function, or, for a spout, the name of a
topic. It is looked at, never called.
"""

from typing import Any

from spout_sdk.api.components import BasicBolt, Bolt, Spout
from spout_sdk.errors import TopologyError
from tuple_tree.errors import TupleTreeError
from tuple_tree.names import check_topic
from tuple_tree.streams import Stream


def check_source(name: str, source: Any, streams: tuple[Stream, ...]) -> None:
    """Checks what an external spout was declared with.

    Raises:
        TopologyError: if it cannot be.
    """
    if not isinstance(source, str):
        _check_function("spout", name, source, "the name of a topic, or a function, source(spark) in Spark")
    else:
        try:
            check_topic(source)
        except TupleTreeError as error:
            raise TopologyError(f"spout {name!r} reads no topic: {error}") from error
    if not streams:
        raise TopologyError(
            f"spout {name!r} is external, and nothing says what it emits: add streams=[declare(...)] to set_spout"
        )
    if isinstance(source, str) and len(streams) > 1:
        raise TopologyError(
            f"spout {name!r} reads topic {source!r} and declares {len(streams)} streams: a topic becomes one stream, "
            "so declare one"
        )


def check_transform(name: str, transform: Any) -> None:
    """Checks what an external bolt was declared with.

    Raises:
        TopologyError: if it cannot be.
    """
    _check_function("bolt", name, transform, "a function, transform(rows) in Spark")


def _check_function(kind: str, name: str, given: Any, wanted: str) -> None:
    if isinstance(given, type) and issubclass(given, (Spout, Bolt, BasicBolt)):
        raise TopologyError(
            f"{kind} {name!r} is external and given the class {given.__name__}, which nothing but this SDK runs: take "
            f"external=True away, or pass {wanted}"
        )
    if not callable(given):
        raise TopologyError(f"{kind} {name!r} is external and given a {type(given).__name__}: pass {wanted}")
