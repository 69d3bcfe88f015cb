"""`Needs`: the needs of a kind of spout or bolt from its tasks and its topology."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Needs:
    """The needs of a kind, and its abilities; the builder compares them with position, guarantee and streams.

    Attributes:
        kind: its name in errors, with an article.
        called_by: makes the `Operator` or the `SpoutSource` that calls an instance in a task.
        instance: arguments of its constructor set declarations, so they are read from an instance.
        ticks: it takes tick tuples.
        columns: all its streams have the codec `arrow`.
        answers: its collector answers messages.
        anchors_several: it may anchor a tuple to several inputs, so a replay may give the tuple another identity.
        waits: its inputs run between calls, with a `time_limit` and a `stop_timeout`.
        writes: it writes records to a topic of the user's, made of fields of its inputs.
        state: a changelog, inputs grouped by key, and transactions.
        windows: its state has windows, which close when messages are done: a guarantee that follows trees.
        results: it emits results of windows, so it has a stream for them.
        positions: of a spout: its messages have positions in topics.
        never_called: methods that only other kinds have → what to do instead.
    """

    kind: str = ""
    called_by: Callable[..., Any] | None = None
    instance: bool = False
    ticks: bool = False
    columns: bool = False
    answers: bool = False
    anchors_several: bool = False
    waits: bool = False
    writes: bool = False
    state: bool = False
    windows: bool = False
    results: bool = False
    positions: bool = False
    never_called: Mapping[str, str] = field(default_factory=dict)


def needs_of(component: Any) -> Needs:
    """The needs of a class or an instance; an external component, which is None, has none."""
    needs: Needs = Needs() if component is None else component.needs
    return needs
