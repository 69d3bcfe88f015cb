"""`acker dead-letters`: seen as they were, and put back once, whoever dies or does it at the same time."""

import base64
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from confluent_kafka import Message, Producer
from confluent_kafka.admin import AdminClient

from acker_cli.replaying import Wanted, replay_letters
from inspection.dead_letters import DeadLetterLog, DeadLettersError, Replayer, Selection
from tests.kafka.ack_log import AckLog
from tests.kafka.replaying import ANCHORS, bury, committed, values
from tests.kafka.sdk_rig import Use, headers_of
from tests.unit.cli.running import Acker, Run, run_acker, running_acker, said
from tests.waiting import eventually
from tuple_tree.names import acks_topic, dead_letters_topic, tuples_topic

ROOT = Path(__file__).parents[2]


@pytest.fixture
def acker(bootstrap_servers: str) -> Acker:
    def run(*arguments: str) -> Run:
        return run_acker("dead-letters", *arguments, "--bootstrap-servers", bootstrap_servers, cwd=ROOT, seconds=180)

    return run


@pytest.fixture
def log(bootstrap_servers: str) -> Iterator[AckLog]:
    with AckLog(bootstrap_servers) as log:
        yield log
        log.catalogue.withdraw(log.topology)


@pytest.fixture
def inbox(log: AckLog) -> str:
    return tuples_topic(log.topology, "b")


def refused(run: Run) -> str:
    assert run.returncode == 1, run.stdout + run.stderr
    assert "Traceback" not in run.stderr
    return run.stderr


def in_inbox(log: AckLog) -> list[Message]:
    return committed(log.kafka, tuples_topic(log.topology, "b"))


def test_they_are_listed_and_shown_as_they_were(acker: Acker, log: AckLog, inbox: str) -> None:
    assert acker("list", log.topology).stdout == "no dead letters\n"
    bury(log.kafka, log.topology, inbox, [b'{"word": "to"}', b"\xff\x00\xff"])
    bury(log.kafka, log.topology, acks_topic(log.topology), [b"\xc3"], reason="truncated", by="acker")
    listed = said(acker("list", log.topology, "--json"))
    assert listed["total"] == 3
    assert [(each["offset"], each["reason"], each["by"], each["preview"]) for each in listed["dead_letters"]] == [
        (0, "exception", "b/0", '{"word": "to"}'),
        (1, "exception", "b/0", "ff00ff"),
        (2, "truncated", "acker", "c3"),
    ]

    def offsets(*filters: str) -> list[int]:
        return [each["offset"] for each in said(acker("list", log.topology, "--json", *filters))["dead_letters"]]

    assert offsets("--reason", "truncated") == offsets("--component", "acker") == [2]
    assert offsets("--topic", inbox, "--limit", "1") == offsets("--offset", "1") == [1]
    assert offsets("--since", "1h") == [0, 1, 2]
    assert offsets("--since", "2100-01-01") == []
    plain = acker("list", log.topology, "--limit", "2").stdout
    assert f"{inbox}[0]@1" in plain
    assert "1 earlier ones are not shown" in plain

    shown = said(acker("show", log.topology, "1", "--json"))
    assert base64.b64decode(shown["value"]) == b"\xff\x00\xff"
    assert base64.b64decode(shown["key"]) == b"key"
    assert [name for name, _ in shown["headers"]] == ["anchors", "source", "traceparent"]
    assert shown["replayed_ms"] is None
    plain = acker("show", log.topology, "1").stdout
    assert "detail    ValueError: no\n" in plain
    assert "header    source: s/default\n" in plain
    assert "  00000000  ff 00 ff" in plain
    assert '  {"word": "to"}\n' in acker("show", log.topology, "0").stdout
    assert shown["preview"] == "ff00ff"
    none = "no dead letters that the filters take; those that were read have the reasons exception (2), truncated (1)\n"
    assert acker("list", log.topology, "--reason", "excption").stdout == none
    assert "has no dead letter 17" in refused(acker("show", log.topology, "17"))
    assert "no topology 'no-such'" in refused(acker("list", "no-such"))


def test_tuples_are_shown_by_their_fields(acker: Acker, log: AckLog, inbox: str) -> None:
    """As bytes again, once nobody knows the fields any more."""
    bury(log.kafka, log.topology, inbox, [b"\x04to"])

    def previews() -> list[str]:
        (listed,) = said(acker("list", log.topology, "--json"))["dead_letters"]
        return [listed["preview"], said(acker("show", log.topology, "0", "--json"))["preview"]]

    assert previews() == ["word='to'", "word='to'"]
    assert "  word='to'  " in acker("list", log.topology).stdout
    assert "tuple     word='to'\n" in acker("show", log.topology, "0").stdout
    log.catalogue.withdraw(log.topology)
    assert previews() == ["04746f", "04746f"]
    assert "tuple " not in acker("show", log.topology, "0").stdout


def test_a_letter_is_put_back_as_it_was_and_once(acker: Acker, log: AckLog, inbox: str) -> None:
    bury(log.kafka, log.topology, inbox, [b"zero", b"one"])
    assert "Give a filter" in refused(acker("replay", log.topology, "--yes"))
    assert "--yes replays without asking" in refused(acker("replay", log.topology, "--offset", "1"))
    dry = said(acker("replay", log.topology, "--offset", "1", "--dry-run", "--json"))
    assert (dry["chosen"], dry["replayed"]) == ([1], [])
    assert in_inbox(log) == []

    done = said(acker("replay", log.topology, "--offset", "1", "--yes", "--json"))
    assert done["replayed"] == [{"offset": 1, "topic": inbox, "partition": 0, "position": 0}]
    (record,) = in_inbox(log)
    assert (record.value(), record.key()) == (b"one", b"key")
    assert headers_of(record) == {"source": b"s/default", "traceparent": b"00-1"}
    assert said(acker("list", log.topology, "--json"))["dead_letters"][1]["replayed_ms"] is not None

    second = refused(acker("replay", log.topology, "--offset", "1", "--offset", "0", "--yes"))
    assert "dead letter 1 was replayed before: --again" in second
    assert values(in_inbox(log)) == [b"one"]
    rest = said(acker("replay", log.topology, "--all", "--yes", "--json"))
    assert (rest["chosen"], rest["replayed_before"]) == ([0], [1])
    assert acker("replay", log.topology, "--all", "--yes").stdout.endswith("put back 0 dead letters\n")
    again = said(acker("replay", log.topology, "--offset", "1", "--again", "--keep-anchors", "--yes", "--json"))
    assert again["chosen"] == [1]
    records = in_inbox(log)
    assert values(records) == [b"one", b"zero", b"one"]
    assert headers_of(records[2]) == {"anchors": ANCHORS, "source": b"s/default", "traceparent": b"00-1"}


def test_what_cannot_be_put_back_is_left_out_and_told(acker: Acker, log: AckLog, inbox: str) -> None:
    bury(log.kafka, log.topology, acks_topic(log.topology), [b"\xc3"], reason="truncated", by="acker")
    bury(log.kafka, log.topology, inbox, [None, b"good"])
    bury(log.kafka, log.topology, inbox, [b"elsewhere"], partition=9)
    done = said(acker("replay", log.topology, "--all", "--yes", "--json"))
    assert [each["offset"] for each in done["replayed"]] == [2]
    assert [each["offset"] for each in done["refused"]] == [0, 1, 3]
    assert "has only 1 partitions: it lay in 9" in refused(acker("replay", log.topology, "--offset", "3", "--yes"))


def test_a_record_that_is_refused_undoes_its_whole_batch(acker: Acker, log: AckLog, inbox: str) -> None:
    """Larger than the topic takes: what was to go with it is not put back either."""
    from tests.kafka.test_cli_doctor import set_config

    bury(log.kafka, log.topology, inbox, [b"small", b"x" * 20_000])
    set_config(log, inbox, "max.message.bytes", "10000")
    told = refused(acker("replay", log.topology, "--all", "--yes"))
    assert f"dead letter 1 was refused by {inbox}" in told
    assert "0 of 2 are known to be back" in told
    assert in_inbox(log) == []
    assert len(said(acker("replay", log.topology, "--offset", "0", "--yes", "--json"))["replayed"]) == 1
    assert values(in_inbox(log)) == [b"small"]


@pytest.mark.parametrize("moment", ["before", "after"])
def test_whenever_it_is_killed_each_letter_is_put_back_once(
    moment: str, acker: Acker, log: AckLog, inbox: str, bootstrap_servers: str
) -> None:
    """250 letters are three transactions; the process dies at the second, before and after it commits."""
    wanted = [str(number).encode() for number in range(250)]
    bury(log.kafka, log.topology, inbox, list(wanted))
    child = subprocess.run(
        [sys.executable, "-m", "tests.kafka.replaying", bootstrap_servers, log.topology, moment, "2"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert child.returncode == -9, child.stderr
    rest = said(acker("replay", log.topology, "--all", "--yes", "--json"))
    before = 100 if moment == "before" else 200
    assert len(rest["replayed_before"]) == before
    assert len(rest["replayed"]) == 250 - before
    assert values(in_inbox(log)) == wanted


def test_however_many_replay_at_a_time_each_letter_is_put_back_once(
    acker: Acker, log: AckLog, inbox: str, bootstrap_servers: str
) -> None:
    wanted = [str(number).encode() for number in range(400)]
    bury(log.kafka, log.topology, inbox, list(wanted))
    command = [sys.executable, "-m", "acker_cli", "dead-letters", "replay", log.topology, "--all", "--yes"]
    at_once = [
        subprocess.Popen(
            [*command, "--bootstrap-servers", bootstrap_servers],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    for process in at_once:
        _, error = process.communicate(timeout=180)
        # One that was put out says so; the last one that began is not.
        assert process.returncode == 0 or "another replay" in error or "it is not known" in error, error
    said(acker("replay", log.topology, "--all", "--yes", "--json"))
    assert sorted(values(in_inbox(log))) == sorted(wanted)  # type: ignore[type-var]


def test_a_replay_that_begins_puts_an_end_to_another(log: AckLog, inbox: str) -> None:
    bury(log.kafka, log.topology, inbox, [b"zero"])
    letters = list(DeadLetterLog(log.kafka, log.topology).fetch([0]))
    with Replayer(log.kafka, log.topology) as first:
        with Replayer(log.kafka, log.topology) as second:
            assert [one.position for one in second.replay(letters)] == [0]
        with pytest.raises(DeadLettersError, match="has begun and put an end to this one"):
            list(first.replay(letters))
    assert values(in_inbox(log)) == [b"zero"]
    assert DeadLetterLog(log.kafka, log.topology).replays().keys() == {0}


def test_a_note_behind_an_open_transaction_is_waited_for(acker: Acker, log: AckLog, inbox: str) -> None:
    """Of a bolt with exactly once that writes a dead letter: what follows is not seen before that has ended."""
    bury(log.kafka, log.topology, inbox, [b"zero"])
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
    with running_acker(*arguments, cwd=ROOT) as interrupted:
        interrupted.wait_for("1 with reason exception")
        interrupted.process.send_signal(signal.SIGINT)
        assert interrupted.ended() == 128 + signal.SIGINT
        assert "Traceback" not in interrupted.said
    with running_acker(*arguments, cwd=ROOT) as second:
        # It does not know better yet.
        second.wait_for("1 with reason exception")
        bolt.abort_transaction(30)
        second.wait_for("dead letter 0 was replayed before")
        assert second.ended() == 1
    assert values(in_inbox(log)) == [b"zero"]


def test_what_a_bolt_could_not_use_goes_through_it_again(use: Use, acker: Acker) -> None:
    """A real bolt buries a record; put back, it is read, and buried again, as a new letter without anchors."""
    cluster = use("words")
    name = cluster.manifest.topology
    inbox, letters = tuples_topic(name, "count"), dead_letters_topic(name)
    cluster.produce(inbox, 1, b"\xff", [("anchors", ANCHORS), ("source", b"split/default")])
    command = ("run", "tests.kafka.sdk_topologies:words", "--component", "count")
    with running_acker(*command, "--bootstrap-servers", str(cluster.kafka["bootstrap.servers"]), cwd=ROOT) as bolt:
        eventually(lambda: len(committed(cluster.bootstrap, letters)) == 1, "the dead letter")
        (first,) = said(acker("list", name, "--json"))["dead_letters"]
        assert (first["reason"], first["topic"], first["partition"]) == ("bad-payload", inbox, 1)
        assert len(said(acker("replay", name, "--offset", "0", "--yes", "--json"))["replayed"]) == 1
        # The letter, the note of its replay, and the letter that follows.
        eventually(lambda: len(committed(cluster.bootstrap, letters)) == 3, "the second dead letter")
        bolt.process.send_signal(signal.SIGINT)
        assert bolt.ended() == 128 + signal.SIGINT
    (old, new) = said(acker("list", name, "--json"))["dead_letters"]
    assert (old["replayed_ms"] is not None, new["replayed_ms"]) == (True, None)
    assert new["position"] > old["position"]
    shown = said(acker("show", name, str(new["offset"]), "--json"))
    assert [header for header, _ in shown["headers"]] == ["source"]


def test_a_topic_that_is_deleted_while_it_asks_is_not_written(
    log: AckLog, inbox: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster that makes topics by itself would make it again, and the letter would be noted as put back."""
    bury(log.kafka, log.topology, inbox, [b"a"])
    admin = AdminClient(log.kafka)

    def confirmed(_question: str, *, err: bool) -> bool:
        assert not err
        admin.delete_topics([inbox])[inbox].result(30)
        eventually(lambda: inbox not in log.catalogue.topics(), "the inbox is gone")
        return True

    monkeypatch.setattr("acker_cli.replaying.typer.confirm", confirmed)
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    wanted = Wanted(log.topology, Selection(offsets=frozenset({0})), 10)
    with pytest.raises(DeadLettersError, match=r"dead letter 0 cannot be replayed: topic .* does not exist any more"):
        replay_letters(log.kafka, wanted, dry_run=False, yes=False, as_json=False)
    assert DeadLetterLog(log.kafka, log.topology).replays() == {}
