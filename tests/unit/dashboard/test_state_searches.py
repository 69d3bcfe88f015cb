"""The dashboard's searches for keys of a state, in a changelog in memory."""

import pytest

from inspection.dashboard.source import SEARCH_SECONDS, Source
from inspection.errors import SearchLimitError, StateKeyError, StateKeyNotFoundError
from inspection.state_search import plain
from kafka_clients.errors import UnknownTopologyError
from spout_sdk.testing import MemoryBroker
from spout_sdk.testing.clients import MemoryClients
from spout_sdk.testing.tasks import LIMITLESS
from tests.manifests import bolt, counting, manifest, spout
from tuple_tree.names import TOPOLOGIES_TOPIC
from tuple_tree.routing import fields_task
from tuple_tree.state_records import ABOUT_KEY, About
from tuple_tree.topics import topic_specs

TOPIC = "words.state.count"
MANIFEST = manifest(spout("lines"), counting("count", "lines", tasks=3), bolt("other", "lines"))
TASK = fields_task(b"to", 3)


@pytest.fixture
def broker() -> MemoryBroker:
    broker = MemoryBroker(topic_specs(MANIFEST), lambda: 123_456)
    broker.append(TOPOLOGIES_TOPIC, 0, b"words", MANIFEST.to_json(), None)
    broker.append(TOPIC, TASK, ABOUT_KEY, About.of(MANIFEST, "count").to_json(), None)
    for value in (b'{"count":1}', b'{"count":9007199254740993}'):
        broker.append(TOPIC, TASK, b"to", value, None)
    return broker


@pytest.fixture
def source(broker: MemoryBroker) -> Source:
    return Source(MemoryClients(broker, [0], room=LIMITLESS).settings)


def test_a_key_is_found_as_it_is_now(source: Source, broker: MemoryBroker) -> None:
    found = source.state("words", "count", ["to"])
    assert (found["key"], found["value"], found["task"]) == ({"word": "to"}, {"count": 2**53 + 1}, TASK)
    assert (found["changed_ms"], found["text"]) == (123_456, '{\n  "count": 9007199254740993\n}')
    broker.append(TOPIC, TASK, b"to", None, None)
    with pytest.raises(StateKeyNotFoundError, match=f"{TOPIC} has no key to: acker state list words count prints"):
        source.state("words", "count", ["to"])


def test_what_cannot_be_read_is_said_in_words(source: Source, broker: MemoryBroker) -> None:
    for name, key, message in (
        ("count", ["a", "b"], r"a key is one value for each field \(word\), not 2"),
        ("other", ["a"], "'other' of topology 'words' has no state: count has one"),
        ("nothing", ["a"], "nothing"),
    ):
        with pytest.raises(StateKeyError, match=message):
            source.state("words", name, key)
    with pytest.raises(UnknownTopologyError):
        source.state("others", "count", ["to"])
    broker.append(TOPIC, TASK, b"to", b"damaged", None)
    with pytest.raises(StateKeyError, match=r"key 'to'.*Another program or version has written it"):
        source.state("words", "count", ["to"])
    assert plain({"a": float("nan"), "b": b"\x01", "c": [1.5, None]}) == {"a": "NaN", "b": "0x01", "c": [1.5, None]}


def test_a_search_ends_in_time(broker: MemoryBroker) -> None:
    now = iter(range(0, 1_000_000, int(SEARCH_SECONDS) + 1))
    source = Source(MemoryClients(broker, [0], room=LIMITLESS).settings, lambda: float(next(now)))
    for _ in range(3):
        with pytest.raises(SearchLimitError, match=r"searches for 60 s at most.*run acker state get words count to, "):
            source.state("words", "count", ["to"])
