"""Checks that the positions in a changelog belong to the source topics that exist now."""

from collections.abc import Iterable

from spout_sdk.errors import TopicsError
from tuple_tree.names import component_group
from tuple_tree.state_records import About


def check_source_topics(written: About, now: About) -> None:
    """Checks that positions in a changelog still belong to the same messages as when it was written.

    Otherwise new messages would be taken for repeats of earlier messages, and be lost.

    Args:
        written: the description in the changelog.
        now: the description of the running topology, with the current ids of the topics.

    Raises:
        TopicsError: if a topic was deleted and created again, or spouts or topics are in another order.
    """
    if not (changed := written.changed_sources(now)):
        return
    topic, problem = next(iter(changed.values()))
    raise moved(topic, problem, now.topology, now.bolt, now.sources)


def moved(topic: str, problem: str, topology: str, bolt: str, spouts: Iterable[str]) -> TopicsError:
    """The error for positions that belong to other messages now; `spouts` are the spouts upstream that read topics."""
    groups = ", ".join(component_group(topology, spout) for spout in spouts)
    return TopicsError(
        topic,
        f"{problem}. The state of {bolt!r} has positions of earlier messages, and would skip new ones with the same. "
        "Declare spouts and their topics in the earlier order, with new spouts after the others. If they changed on "
        "purpose, and no tuple of the earlier topics waits in an inbox, stop the bolt, and forget the positions with "
        f"acker state reset {topology} {bolt} --keep-values. To count messages again, reset the "
        f"values too, and the offsets of {groups}",
    )
