"""A record that this version of a bolt cannot read: it waits, fails or is a dead letter, by the published manifest."""

from typing import Any, ClassVar

import pytest

from spout_sdk.testing import MemoryRecord
from tests.manifests import bolt, manifest, spout
from tests.unit.sdk.bench import Lines
from tests.unit.sdk.loop_rig import Consumer, Rig, Works, WorksInBatches
from tuple_tree.components import Subscription
from tuple_tree.manifest import Manifest
from tuple_tree.messages import FailReason
from tuple_tree.streams import declare

OTHER = 1  # the offset of the record of another version
KNOWN = manifest(spout("lines").model_copy(update={"streams": Lines.streams}), bolt("b", "lines"))


SUBSCRIPTIONS = tuple(Subscription(source="lines", stream=name, grouping="shuffle") for name in ("default", "new"))
NEWER = manifest(
    spout("lines").model_copy(update={"streams": (*Lines.streams, declare(["line"], "new"))}),
    bolt("b").model_copy(update={"subscriptions": SUBSCRIPTIONS}),
)


class Published:
    """The published manifest, which is read some looks after it was asked for."""

    def __init__(self, published: Manifest | None) -> None:
        self.published = published
        self.manifest: Manifest | None = None
        self.is_read = True
        self.asked = 0
        self._looks = 0

    def ask(self) -> None:
        self.asked += 1
        self.is_read, self._looks = False, 3

    def look(self) -> None:
        self._looks -= 1
        if self._looks <= 0:
            self.manifest, self.is_read = self.published, True


class Mixed(Consumer):
    """One record is of a stream that this version does not know."""

    source: ClassVar[bytes] = b"lines/new"

    def consume(self, limit: int, timeout: float) -> list[MemoryRecord]:
        headers = [*(each for each in self.headers if each[0] != "source"), ("source", self.source)]
        other = MemoryRecord("words.tuples.b", 0, OTHER, self.payload, headers)
        return [other if each.offset() == OTHER else each for each in super().consume(limit, timeout)]


class Unread(Rig):
    """A loop of six seconds with the record between two others."""

    def __init__(self, published: Any, **options: Any) -> None:
        settings = {"guarantee": "at_least_once", "tracked": True, **options}
        super().__init__([1, 2] + [0] * 400, consumer=Mixed, published=published, **settings)
        self.stop_at(6)

    @property
    def letters(self) -> int:
        return self.loop.stats().dead_letters

    @property
    def failed(self) -> int:
        return self.loop.stats().failed.get(FailReason.FAILED.word, 0)


@pytest.mark.parametrize("bolt_class", [Works, WorksInBatches])
@pytest.mark.parametrize("guarantee", ["at_least_once", "at_most_once"])
def test_it_waits_as_long_as_the_published_manifest_knows_its_stream(
    bolt_class: Any, guarantee: str, caplog: pytest.LogCaptureFixture
) -> None:
    published = Published(NEWER)
    rig = Unread(published, bolt=bolt_class, guarantee=guarantee)
    shown: list[str] = []
    is_over = rig.stopping

    def stopping() -> bool:
        shown.append(rig.loop.stats().paused_by)
        return is_over()

    rig.stopping = stopping
    rig.run()
    assert rig.executed == [0]
    assert rig.consumer.commits[-1] == OTHER, "the next owner reads it again, and what is behind it"
    assert (rig.letters, rig.failed) == (0, 0)
    assert published.asked > 3, "it looks whether the manifest has changed"
    assert "restart this process with its code" in shown[-1]
    assert "Restart it with the code of the published manifest" in caplog.text
    assert len(rig.consumer.waits) > 100, "the loop waits meanwhile"


def test_it_fails_when_the_published_manifest_no_longer_knows_its_stream() -> None:
    published = Published(NEWER)
    rig = Unread(published)
    is_over, changes_at = rig.stopping, rig.clock() + 3

    def stopping() -> bool:
        if rig.clock() >= changes_at:
            published.published = KNOWN
        return is_over()

    rig.stopping = stopping
    rig.run()
    assert (rig.executed, rig.consumer.commits[-1], rig.letters, rig.failed) == ([0, 2], 3, 0, 1)


@pytest.mark.parametrize("is_tracked", [True, False])
@pytest.mark.parametrize("published", [KNOWN, None], ids=["read", "missing"])
def test_without_trees_to_replay_it_is_a_dead_letter(is_tracked: bool, published: Manifest | None) -> None:
    rig = Unread(Published(published), tracked=is_tracked)
    rig.run()
    assert (rig.executed, rig.consumer.commits[-1]) == ([0, 2], 3)
    assert rig.letters == (not (is_tracked and published))


@pytest.mark.parametrize(
    ("published", "count"), [(manifest(spout("lines", {"line": int}), bolt("b", "lines")), 0), (KNOWN, 3)]
)
def test_changed_fields_wait_and_a_damaged_record_is_a_dead_letter(
    monkeypatch: pytest.MonkeyPatch, published: Manifest, count: int
) -> None:
    rig = Unread(Published(published))
    rig.consumer.payload = b"of another version, or damaged"
    monkeypatch.setattr(Mixed, "source", b"lines/default")
    rig.run()
    assert (rig.executed, rig.letters, max(rig.consumer.commits, default=0)) == ([], count, count)


def test_a_record_that_waits_for_longer_than_any_tree_is_not_settled() -> None:
    rig = Unread(Published(NEWER), tracked=False)
    rig.consumer.wait = lambda _seconds: rig.clock.advance(5)
    rig.stop_at(1_000)
    rig.run()
    assert (rig.executed, rig.consumer.commits[-1]) == ([0], OTHER)
