"""The fields of a dead letter, filters, the display of bytes, and which can be replayed."""

from dataclasses import replace
from typing import Any

import pytest

from inspection.dead_letters import COUNTED, DeadLetter, DeadLetterCount, Header, LetterPreviews, Replay, parse
from inspection.previews import hex_dump, preview
from inspection.replay import why_not
from spout_sdk.records import MadeRecord
from tests.manifests import bolt, manifest, spout
from tuple_tree.headers import dead_letter_headers, replay_marker
from tuple_tree.names import chain_of, tuples_topic
from tuple_tree.payloads import encode_tuples, payload_codec
from tuple_tree.streams import declare

INBOX = tuples_topic("words", "split")
OWN: tuple[Header, ...] = (("anchors", b"\x00" * 16), ("source", b"lines/default"), ("empty", None))
TOPICS = {INBOX: 2, "lines": 3, "words.acks": 8, "words.dead-letters": 1}
LINE = declare({"line": str, "number": int})
MANIFEST = manifest(spout("lines", {"line": str, "number": int}), bolt("split", "lines"))
TUPLE = encode_tuples(payload_codec(LINE), [("a\x1b", 7)])


def record(offset: int, headers: list[Any], key: bytes | None = None, value: bytes | None = None) -> Any:
    return MadeRecord("words.dead-letters", 0, offset, value, headers, key, (2, 1_000))


def letter(
    *, offset: int = 7, topic: str = INBOX, reason: str = "exception", by: str = "split/1", value: bytes | None = b"v"
) -> DeadLetter:
    ours = dead_letter_headers(topic, 1, 42, reason=reason, detail="ValueError: no", by=by)
    read = parse(record(offset, [*OWN, *ours], b"k", value))
    assert isinstance(read, DeadLetter)
    return read


def test_a_dead_letter_has_the_position_and_the_unchanged_record() -> None:
    assert letter() == DeadLetter(7, 1_000, b"k", b"v", OWN, INBOX, 1, 42, "exception", "ValueError: no", "split/1")
    assert parse(record(9, [*replay_marker(7)])) == Replay(7, 1_000)
    # One that was a dead letter before keeps the headers of that time.
    before = dead_letter_headers("lines", 0, 1, reason="bad-payload", detail="?", by="lines/0")
    after = dead_letter_headers(INBOX, 1, 42, reason="exception", detail="!", by="split/0")
    again = parse(record(0, [*before, *after], None, b""))
    assert isinstance(again, DeadLetter)
    assert (again.topic, again.reason, list(again.headers)) == (INBOX, "exception", before)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "no value"),
        ("naïve\ntext".encode(), "naïve␊text"),
        (b"\x1b[31mred", "1b5b33316d726564"),
        (("x" + "é" * 1_000).encode(), "x" + "é" * 18 + "…"),
        (b"\xff" * 1_000, "f" * 19 + "…"),
    ],
)
def test_previews_fit_and_disturb_no_terminal(value: bytes | None, shown: str) -> None:
    assert preview(value, 20) == shown
    assert list(hex_dump(b"0123456789abcdef\xff\n"))[1].split() == ["00000010", "ff", "0a", ".."]


def test_a_tuple_is_shown_by_its_fields_and_other_values_as_bytes() -> None:
    previews = LetterPreviews(MANIFEST)
    assert previews.of(letter(value=TUPLE)) == r"line='a\x1b', number=7"
    assert previews.of(letter(value=TUPLE, topic=chain_of("lines"))) == r"line='a\x1b', number=7"
    headers: tuple[tuple[Header, ...], ...] = ((), (("source", None),), (("source", b"\xff"),))
    for other in (
        letter(value=TUPLE + b"!", topic=chain_of("lines")),
        letter(value=TUPLE + b"!"),
        letter(value=b""),
        letter(value=None),
        letter(value=TUPLE, topic="others.tuples.split"),
        *(replace(letter(value=TUPLE), headers=each) for each in headers),
    ):
        assert previews.values(other, 60) is None
        assert previews.of(other) == preview(other.value)


def test_which_dead_letters_can_be_replayed() -> None:
    assert why_not(letter(), "words", TOPICS) == ""
    for broken, message in (
        (letter(topic="words.acks"), "trees of an old ack batch"),
        (letter(topic="words.notices.lines"), "it is a notice"),
        (letter(value=None), "its value was not kept"),
        (letter(topic=chain_of("lines"), by="keep/1"), "bolt keep is chained to lines, and has no inbox"),
        (letter(topic="words.tuples.gone"), "does not exist any more"),
        (replace(letter(), partition=2), "has only 2 partitions: it is from 2"),
        (replace(letter(), topic=""), "headers lack the original topic"),
        (replace(letter(), partition=-1), "headers lack the original topic"),
    ):
        assert message in why_not(broken, "words", TOPICS)


def test_a_replay_writes_to_a_source_topic_only_if_it_is_named() -> None:
    """The writer of a dead letter decides which topic it names."""
    assert "--topic lines" in why_not(letter(topic="lines"), "words", TOPICS)
    assert why_not(letter(topic="lines"), "words", TOPICS, {"lines"}) == ""
    for topic in ("acker.topologies", "__consumer_offsets", "words.dead-letters", "words.replay.lines"):
        assert "where only components" in why_not(letter(topic=topic), "words", {**TOPICS, topic: 9}, {topic})


def test_markers_of_transactions_and_notes_of_replays_are_no_dead_letters() -> None:
    """With `exactly_once` each transaction ends with a marker, here behind one dead letter, at each odd offset."""
    reads: list[range] = []
    committed = 6  # a transaction is open

    def read(offsets: range) -> tuple[list[Any], int]:
        reads.append(offsets)
        offsets = range(offsets.start, min(offsets.stop, committed))
        letters = [record(each, [*replay_marker(0)] if each == 6 else [*OWN]) for each in offsets if each % 2 == 0]
        return letters, offsets.stop

    count = DeadLetterCount(read)
    assert [count.between(0, end) for end in (0, 8)] == [0, 3]
    committed = 10
    # Retention deletes two in the end; then the topic is a new one of this name.
    assert [count.between(*each) for each in ((0, 8), (0, 8), (0, 10), (4, 10))] == [3, 3, 4, 2]
    assert reads == [range(8), range(6, 8), range(8, 10)]
    assert count.between(0, 2) == 1


def test_of_very_many_dead_letters_the_latest_are_counted() -> None:
    count = DeadLetterCount(lambda offsets: ([record(each, [*OWN]) for each in offsets if each % 2 == 0], offsets.stop))
    assert count.between(0, 3 * COUNTED) == 2 * COUNTED + COUNTED // 2
    assert count.between(COUNTED, 3 * COUNTED) == COUNTED + COUNTED // 2
    assert count.between(3 * COUNTED, 3 * COUNTED) == 0
