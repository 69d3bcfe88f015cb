"""Records of wire version 1 of every kind, as they were written: each later version reads them.

What is in `vectors/version_1.json` is never written anew. Ack batches, notices, roots and groupings have vectors of
their own beside it.
"""

import datetime
import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from acker_worker.progress import Progress
from inspection.dead_letters import DeadLetter, Replay, parse
from spark_jobs.message_table import Prefix
from spark_jobs.spout_offsets import prefix_of
from spout_sdk.records import MadeRecord
from tests.packs import tuples_of
from tuple_tree.commit_metadata import DONE, read_commit_metadata
from tuple_tree.done_sets import DoneSet
from tuple_tree.manifest import Manifest
from tuple_tree.process_stats import StatsRecord
from tuple_tree.source_commits import SourceCommit
from tuple_tree.streams import Field, StreamDeclaration

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parent / "vectors" / "version_1.json").read_text())
STREAMS = {each["codec"]: each for each in GOLDEN["tuples"]}


def bytes_of(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


def headers_of(record: dict[str, Any]) -> list[tuple[str, Any]]:
    return [(name, bytes_of(value)) for name, value in record["headers"]]


def stream_of(codec: Any) -> StreamDeclaration:
    fields = tuple(Field(name=name, type=type_) for name, type_ in STREAMS[codec]["fields"])
    return StreamDeclaration(name=codec, codec=codec, fields=fields)


def runs_of(found: list[list[int]]) -> list[tuple[int, int]]:
    return [(begin, end) for begin, end in found]


def values_of(texts: list[str]) -> list[Any]:
    return [eval(text, {"datetime": datetime}) for text in texts]


@pytest.mark.parametrize("codec", STREAMS)
def test_tuples(codec: str) -> None:
    golden = STREAMS[codec]
    record = golden["record"]
    found = tuples_of(bytes_of(record["value"]) or b"", headers_of(record), stream_of(codec))
    assert [values for values, _ in found] == values_of(golden["values"])
    assert [edges for _, edges in found] == [
        {int(root): edge for root, edge in each.items()} for each in golden["edges"]
    ]
    assert dict(headers_of(record))["source"] == f"one/{codec}".encode()


def dead_letter(value: bytes | None, headers: list[tuple[str, Any]], key: bytes | None = None) -> Any:
    return MadeRecord("words.dead-letters", 0, 5, value, headers, key, (2, 7))


def test_dead_letters() -> None:
    for golden in GOLDEN["dead_letters"]:
        record = golden["record"]
        value = bytes_of(record["value"])
        letter = parse(dead_letter(value, headers_of(record), bytes_of(record["key"])))
        assert isinstance(letter, DeadLetter)
        assert {name: getattr(letter, name) for name in golden["decoded"]} == golden["decoded"]
        if golden["values"] is not None:
            found = tuples_of(value or b"", letter.headers, stream_of("arrow"))
            assert found == [(values, {}) for values in values_of(golden["values"])]
    for golden in GOLDEN["replayed"]:
        assert parse(dead_letter(None, headers_of(golden["record"]))) == Replay(golden["offset"], 7)


def test_manifests_and_stats() -> None:
    golden = GOLDEN["manifest"]
    manifest = Manifest.from_json(bytes_of(golden["record"]["value"]) or b"")
    assert json.loads(manifest.model_dump_json()) == golden["decoded"]
    assert manifest.to_json() == bytes_of(golden["record"]["value"]), "as it is published by this version"
    golden = GOLDEN["stats"]
    record = golden["record"]
    stats = StatsRecord.of(bytes_of(record["key"]), bytes_of(record["value"]), 9)
    assert {name: getattr(stats, name) for name in golden["decoded"]} == golden["decoded"]


def test_commits() -> None:
    golden = GOLDEN["acker_commit"]
    progress = Progress.of(golden["offset"], golden["metadata"])
    opened = {writer: [key.hex() for key in keys] for writer, keys in progress.opened.items()}
    expected = golden["rebuild_from"], golden["clock_ms"], golden["opened"]
    assert (progress.rebuild_from, progress.clock_ms, opened) == expected
    for each in GOLDEN["spout_commits"]:
        done = DoneSet(each["offset"], runs_of(each["runs"]), failures=dict(each["failures"]))
        found = SourceCommit.read(each["offset"], each["metadata"])
        assert (found.next_attempt, [*found.done.runs]) == (each["next_attempt"], done.runs)
        assert found.done.failures == done.failures
        commit = SourceCommit(done, each["next_attempt"])
        assert each["next_attempt"] is None or commit.made().metadata == each["metadata"]
    golden = GOLDEN["bolt_commit"]
    tuples = {at: runs_of(runs) for at, runs in golden["tuples"]}
    texts = read_commit_metadata(golden["offset"], golden["metadata"])
    assert texts is not None
    bolt_done = DoneSet(golden["offset"], runs_of(golden["runs"]), tuples)
    assert DoneSet.read(golden["offset"], texts[DONE]) == bolt_done
    golden = GOLDEN["spark_spout_commit"]
    prefix = prefix_of(TopicPartition("source", 0, golden["offset"], golden["metadata"]))
    assert prefix == Prefix(golden["offset"], golden["mark"], tuple(runs_of(golden["runs"])))
