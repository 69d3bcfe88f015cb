"""Valid names, and the names of topics and groups."""

import pytest

from tuple_tree import names
from tuple_tree.errors import InvalidNameError
from tuple_tree.names import check_field, check_name, check_topic


def test_names_are_checked() -> None:
    for name in ("a", "Words", "word-count_2", "x" * 80):
        assert check_name("topology", name) == name
    for name in ("", "1st", "a.b", "a b", "-a", "_a", "a\n", "ä", "a/b", "x" * 81):
        with pytest.raises(InvalidNameError, match="must start with a letter") as raised:
            check_name("topology", name)
        assert f"topology name {name!r}" in str(raised.value)
    for name in ("a", "_a", "Word2", "x" * 300):
        assert check_field(name) == name
    for name in ("", "2a", "a-b", "a.b", "a\n", "é"):
        with pytest.raises(InvalidNameError, match="must be letters, digits and '_', no digit first"):
            check_field(name)
    for name in ("a", "1", "a.b-c_D", "...", "x" * 249):
        assert check_topic(name) == name
    for name in ("", ".", "..", "a b", "a/b", "a\n", "ä", "x" * 250):
        with pytest.raises(InvalidNameError, match="cannot be used: Kafka takes letters, digits"):
            check_topic(name)


def test_topics_and_groups() -> None:
    """Those of topics are in the table of the wire contract."""
    assert (names.acker_group("words"), names.component_group("words", "split")) == ("words.acker", "words.split")
    longest = "x" * 80
    assert len(names.notices_topic(longest, longest)) <= 249
