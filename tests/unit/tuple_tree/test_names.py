"""What may be called what, and how topics and groups are named."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuple_tree import names
from tuple_tree.errors import InvalidNameError, TupleTreeError
from tuple_tree.names import check_field, check_name, check_topic


@pytest.mark.parametrize("name", ["a", "Words", "word-count_2", "x" * 80])
def test_names_that_can_be(name: str) -> None:
    assert check_name("topology", name) == name


@pytest.mark.parametrize("name", ["", "1st", "a.b", "a b", "-a", "_a", "a\n", "ä", "a/b", "x" * 81])
def test_names_that_cannot_be_say_what_may(name: str) -> None:
    with pytest.raises(InvalidNameError, match="must start with a letter") as raised:
        check_name("topology", name)
    assert f"topology name {name!r}" in str(raised.value)
    assert isinstance(raised.value, TupleTreeError)


@pytest.mark.parametrize("name", ["a", "_a", "Word2", "x" * 300])
def test_fields_that_can_be(name: str) -> None:
    assert check_field(name) == name


@pytest.mark.parametrize("name", ["", "2a", "a-b", "a.b", "a\n", "é"])
def test_fields_that_cannot_be_say_what_may(name: str) -> None:
    with pytest.raises(InvalidNameError, match="must be letters, digits and '_', no digit first"):
        check_field(name)


@pytest.mark.parametrize("name", ["a", "1", "a.b-c_D", "...", "x" * 249])
def test_topics_that_can_be(name: str) -> None:
    assert check_topic(name) == name


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a/b", "a\n", "ä", "x" * 250])
def test_topics_that_cannot_be_say_what_may(name: str) -> None:
    with pytest.raises(InvalidNameError, match="cannot be used: Kafka takes letters, digits"):
        check_topic(name)


def test_topics_and_groups() -> None:
    assert names.tuples_topic("words", "split") == "words.tuples.split"
    assert names.acks_topic("words") == "words.acks"
    assert names.notices_topic("words", "lines") == "words.notices.lines"
    assert names.dead_letters_topic("words") == "words.dead-letters"
    assert names.stats_topic("words") == "words.stats"
    assert names.acker_group("words") == "words.acker"
    assert names.component_group("words", "split") == "words.split"
    assert names.TOPOLOGIES_TOPIC == "acker.topologies"


def test_the_longest_names_fit_kafka() -> None:
    longest = "x" * 80
    assert len(names.notices_topic(longest, longest)) <= 249


_NAMES = st.from_regex(r"[A-Za-z][A-Za-z0-9_-]{0,5}", fullmatch=True)


def _all(topology: str, component: str) -> list[str]:
    return [
        names.tuples_topic(topology, component),
        names.acks_topic(topology),
        names.notices_topic(topology, component),
        names.dead_letters_topic(topology),
        names.stats_topic(topology),
        names.TOPOLOGIES_TOPIC,
    ]


@given(_NAMES, _NAMES, _NAMES, _NAMES)
def test_no_two_topics_share_a_name(topology: str, component: str, topology2: str, component2: str) -> None:
    assert len(set(_all(topology, component))) == 6
    if topology != topology2:
        assert set(_all(topology, component)) & set(_all(topology2, component2)) == {names.TOPOLOGIES_TOPIC}
