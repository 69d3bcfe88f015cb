"""`acker dead-letters`: records are shown unchanged, and replayed once, also if a replay is killed."""

import base64
import subprocess
import sys
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Message, Producer

from acker_cli.cluster.replay import ReplayRequest, replay_letters
from inspection.dead_letters import DeadLetterLog, Replay, Selection
from inspection.errors import DeadLettersError
from inspection.previews import preview
from inspection.replay import Replayer
from tests.kafka.ack_log import AckLog
from tests.kafka.replaying import write_dead_letters
from tests.kafka.sdk_rig import headers_of
from tests.packs import packed
from tests.pages import ROOT
from tests.unit.cli.running import Acker, call_acker, json_of, one_line, running_acker
from tests.waiting import eventually
from tuple_tree.names import acks_topic, dead_letters_topic, tuples_topic


@pytest.fixture
def acker(bootstrap_servers: str) -> Acker:
    return partial(call_acker, "dead-letters", servers=bootstrap_servers)


@pytest.fixture
def inbox(log: AckLog) -> str:
    return tuples_topic(log.topology, "b")


def await_inbox(log: AckLog, *values: bytes) -> list[Message]:
    """Waits until these are in the inbox, and no others: a transaction may end a moment after the answer."""
    inbox = tuples_topic(log.topology, "b")
    eventually(lambda: tuple(record.value() for record in log.records(inbox)) == values, f"{len(values)} records")
    return log.records(inbox)


def test_dead_letters_are_listed_and_shown_unchanged(acker: Acker, log: AckLog, inbox: str) -> None:
    name = log.topology
    assert acker("list", name).stdout == "no dead letters\n"
    write_dead_letters(log.kafka, name, inbox, [b'{"word": "to"}', b"\xff\x00\xff"])
    write_dead_letters(log.kafka, name, acks_topic(name), [b"\xc3"], reason="truncated", by="acker")
    pack = packed(log.manifest.stream("s", "default"), ("to",))
    write_dead_letters(log.kafka, name, inbox, [pack])

    def listed(*filters: str) -> list[dict[str, Any]]:
        return list(json_of(acker("list", name, "--json", *filters))["dead_letters"])

    assert [(each["offset"], each["reason"], each["by"], each["preview"]) for each in listed()] == [
        (0, "exception", "b/0", '{"word": "to"}'),
        (1, "exception", "b/0", "ff00ff"),
        (2, "truncated", "acker", "c3"),
        (3, "exception", "b/0", "word='to'"),
    ]
    assert [each["offset"] for each in listed("--component", "acker")] == [2]
    assert [each["offset"] for each in listed("--topic", inbox, "--since", "1h", "--limit", "1")] == [3]
    assert listed("--since", "2100-01-01") == []
    plain = acker("list", name, "--limit", "3").stdout
    assert f"{inbox}[0]@1" in plain
    assert "  word='to'  " in plain
    assert "1 earlier ones are not shown" in plain
    none = "no dead letters that match the filters; the dead letters have the reasons exception (3), truncated (1)\n"
    assert acker("list", name, "--reason", "excption").stdout == none

    shown = json_of(acker("show", name, "1", "--json"))
    assert (base64.b64decode(shown["value"]), base64.b64decode(shown["key"])) == (b"\xff\x00\xff", b"key")
    assert [header for header, _ in shown["headers"]] == ["anchors", "identities", "source", "traceparent"]
    assert (shown["replayed_ms"], shown["preview"]) == (None, "ff00ff")
    plain = acker("show", name, "1").stdout
    for line in ("detail    ValueError: no\n", "header    source: s/default\n", "  00000000  ff 00 ff"):
        assert line in plain
    assert "tuple     word='to'\n" in acker("show", name, "3").stdout
    assert "has no dead letter 17" in one_line(acker("show", name, "17"))
    assert "no topology 'no-such'" in one_line(acker("list", "no-such"))
    # Without the manifest the fields are unknown, so the bytes are shown.
    log.catalogue.withdraw(name)
    assert json_of(acker("show", name, "3", "--json"))["preview"] == preview(pack)


@pytest.mark.smoke
def test_a_dead_letter_is_replayed_unchanged_and_once(acker: Acker, log: AckLog, inbox: str) -> None:
    name = log.topology
    write_dead_letters(log.kafka, name, inbox, [b"zero", b"one"])
    assert "Give a filter" in one_line(acker("replay", name, "--yes"))
    assert "--yes continues without asking" in one_line(acker("replay", name, "--offset", "1"))
    dry = json_of(acker("replay", name, "--offset", "1", "--dry-run", "--json"))
    assert (dry["chosen"], dry["replayed"]) == ([1], [])
    assert log.records(inbox) == []

    done = json_of(acker("replay", name, "--offset", "1", "--yes", "--json"))
    assert done["replayed"] == [{"offset": 1, "topic": inbox, "partition": 0, "position": 0}]
    (record,) = await_inbox(log, b"one")
    assert record.key() == b"key"
    # Without its anchors: its trees failed long ago. And a state counts it as a new tuple.
    assert headers_of(record) == {"source": b"s/default", "traceparent": b"00-1"}
    assert json_of(acker("list", name, "--json"))["dead_letters"][1]["replayed_ms"] is not None

    second = one_line(acker("replay", name, "--offset", "1", "--offset", "0", "--yes"))
    assert "dead letter 1 was replayed before: --again" in second
    await_inbox(log, b"one")
    rest = json_of(acker("replay", name, "--all", "--yes", "--json"))
    assert (rest["chosen"], rest["replayed_before"]) == ([0], [1])
    assert acker("replay", name, "--all", "--yes").stdout.endswith("wrote back 0 dead letters\n")
    again = json_of(acker("replay", name, "--offset", "1", "--again", "--yes", "--json"))
    assert again["chosen"] == [1]
    await_inbox(log, b"one", b"zero", b"one")


def test_dead_letters_that_cannot_be_replayed_are_reported(
    acker: Acker, log: AckLog, inbox: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = log.topology
    write_dead_letters(log.kafka, name, acks_topic(name), [b"\xc3"], reason="truncated", by="acker")
    write_dead_letters(log.kafka, name, inbox, [None, b"good"])
    write_dead_letters(log.kafka, name, inbox, [b"elsewhere"], partition=9)
    done = json_of(acker("replay", name, "--all", "--yes", "--json"))
    assert [[each["offset"] for each in done[what]] for what in ("replayed", "refused")] == [[2], [0, 1, 3]]
    assert "has only 1 partitions: it is from 9" in one_line(acker("replay", name, "--offset", "3", "--yes"))

    # Of two replays the one that began last continues; the other is fenced.
    letters = list(DeadLetterLog(log.kafka, name).fetch([2]))
    with Replayer(log.kafka, name) as first:
        with Replayer(log.kafka, name) as second:
            assert len(list(second.replay(letters))) == 1
        with pytest.raises(DeadLettersError, match="has begun and fenced this one"):
            list(first.replay(letters))
    await_inbox(log, b"good", b"good")

    # A cluster that creates topics by itself would create the inbox again, and the letter would count as replayed.
    write_dead_letters(log.kafka, name, inbox, [b"late"])

    def confirmed(_question: str, **_: Any) -> bool:
        log.delete_topic(inbox)
        return True

    monkeypatch.setattr("typer.confirm", confirmed)
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    last = max(letter["offset"] for letter in json_of(acker("list", name, "--json"))["dead_letters"])
    wanted = ReplayRequest(name, Selection(offsets=frozenset({last})), 10)
    with pytest.raises(DeadLettersError, match=r"cannot be replayed: topic .* does not exist any more"):
        replay_letters(log.kafka, wanted, dry_run=False, yes=False, as_json=False)
    replays = [each for each in DeadLetterLog(log.kafka, name).entries() if isinstance(each, Replay)]
    assert last not in [replay.of for replay in replays]


@pytest.mark.exhaustive
def test_a_rejected_record_aborts_its_whole_batch(acker: Acker, log: AckLog, inbox: str) -> None:
    """It exceeds the size limit of the topic, so its transaction is aborted."""
    write_dead_letters(log.kafka, log.topology, inbox, [b"small", b"x" * 20_000])
    log.set_config(inbox, "max.message.bytes", "10000")
    error = one_line(acker("replay", log.topology, "--all", "--yes"))
    assert f"dead letter 1 was refused by {inbox}" in error
    assert "0 of 2 are known to be written back" in error
    assert log.records(inbox) == []
    assert len(json_of(acker("replay", log.topology, "--offset", "0", "--yes", "--json"))["replayed"]) == 1
    await_inbox(log, b"small")


@pytest.mark.exhaustive
def test_a_replay_waits_for_notes_after_an_open_transaction(log: AckLog, inbox: str) -> None:
    """A bolt with exactly once writes a dead letter: later records are not read before its transaction has ended."""
    write_dead_letters(log.kafka, log.topology, inbox, [b"zero"])
    # Open for longer than the commands take to start.
    settings = {"transactional.id": f"{log.topology}.b.test", "transaction.timeout.ms": 300_000}
    bolt = Producer({**log.kafka, **settings})
    bolt.init_transactions(30)
    bolt.begin_transaction()
    bolt.produce(dead_letters_topic(log.topology), b"open", partition=0)
    assert bolt.flush(30) == 0
    with Replayer(log.kafka, log.topology) as replayer:
        list(replayer.replay(DeadLetterLog(log.kafka, log.topology).fetch([0])))
    command = ("dead-letters", "replay", log.topology, "--offset", "0", "--yes")
    arguments = (*command, "--bootstrap-servers", str(log.kafka["bootstrap.servers"]))
    with running_acker(*arguments, cwd=ROOT) as second:
        second.wait_for("1 with reason exception")
        bolt.abort_transaction(30)
        second.wait_for("dead letter 0 was replayed before")
        assert second.ended() == 1
    await_inbox(log, b"zero")


@pytest.mark.exhaustive
def test_each_letter_is_replayed_once_although_a_replay_is_killed(
    acker: Acker, log: AckLog, inbox: str, bootstrap_servers: str
) -> None:
    """300 letters are three transactions; a process is killed before it commits the second, the next one after it."""
    wanted = [str(number).encode() for number in range(300)]
    write_dead_letters(log.kafka, log.topology, inbox, list(wanted))
    for moment, number in (("before", "2"), ("after", "1")):
        command = [sys.executable, "-m", "tests.kafka.replaying", bootstrap_servers, log.topology, moment, number]
        child = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=180, check=False)
        assert child.returncode == -9, child.stderr
    rest = json_of(acker("replay", log.topology, "--all", "--yes", "--json"))
    assert (len(rest["replayed_before"]), len(rest["replayed"])) == (200, 100)
    await_inbox(log, *wanted)
