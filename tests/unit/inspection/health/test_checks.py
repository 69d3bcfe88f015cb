"""Which processes work for a topology, and whether they keep up."""

from dataclasses import replace
from typing import Any

from inspection.health.calls import check_executes, check_failing, check_inputs, check_retries
from inspection.health.findings import Finding, exit_code
from inspection.health.lag_checks import check_lag, has_explained_lag
from inspection.health.messages import check_dead_letters, check_late, check_open_messages
from inspection.health.observation import LagChange, Observation, OpenMessage
from inspection.health.processes import check_ackers, check_groups, check_idle
from inspection.health.verdict import judge
from tests.manifests import bolt, chained, spout
from tests.manifests import manifest as manifest_of
from tests.unit.inspection.doctor.cases import lag_change, manifest, snapshot, summaries, topology
from tuple_tree.manifest import Manifest

STANDING = [("warning", "lag", "words.split")]


def observed(of: Manifest | None = None, **components: dict[str, Any]) -> Observation:
    found = topology(of).observed
    return replace(found, snapshot=snapshot(found.manifest, **components))


def with_members(of: Observation | None = None, **members: int | None) -> Observation:
    of = of or observed()
    return replace(of, members={**of.members, **{f"words.{name}": count for name, count in members.items()}})


def lags(*lag_changes: LagChange, of: Observation | None = None) -> list[Finding]:
    """As the verdict has them: the lag of what holds its inputs is explained."""
    of = replace(of or observed(), lag_changes=lag_changes)
    held = {bolt.name for bolt in of.manifest.bolts if has_explained_lag(of, bolt.name)}
    return [*check_inputs(of), *check_lag(of, held)]


def reporting(component: str = "split", **figures: Any) -> Observation:
    return observed(None, **{component: figures})


def source(**changed: Any) -> LagChange:
    """Of a topic that the spout reads."""
    return replace(lag_change("lines"), topic="orders", **changed)


def test_chained_bolts_have_the_processes_of_their_head() -> None:
    words = spout("lines").streams
    made = manifest_of(spout("lines"), chained("parse", "lines", streams=words), chained("keep", "parse"))
    facts = replace(observed(made), members={"words.lines": 1, "words.acker": 1}, lag_changes=())
    assert [*check_groups(facts), *check_ackers(facts), *check_idle(facts)] == []
    (ackers,) = check_ackers(with_members(facts, acker=0))
    assert "no tree that leaves the chain of its spout completes" in ackers.found
    hung = {"execute_seconds": 40.0, "execute_at": "chain of lines[0] offset 7"}
    (finding,) = check_executes(replace(facts, snapshot=snapshot(made, lines=hung, keep={})))
    chain = "lines with parse, keep, chained to it"
    assert finding.found.startswith(f"Spout {chain}: one execute has been running for 40 s")
    assert finding.component == "lines"
    two = observed(manifest_of(*made.components, spout("words")))
    (finding,) = check_groups(replace(two, members={"words.lines": 0, "words.acker": 1, "words.words": 1}))
    assert finding.subject == "words.lines"
    assert f"no process runs spout {chain}, while others" in finding.found


def test_a_component_without_a_process() -> None:
    assert list(check_groups(observed())) == []
    (finding,) = check_groups(with_members(split=0))
    assert summaries([finding]) == [("problem", "groups", "words.split")]
    assert "lag 20 records" in finding.found
    assert "--component split" in finding.remedy
    assert summaries(list(check_ackers(with_members(acker=0)))) == [("problem", "ackers", "words")]
    assert list(check_ackers(observed(manifest(guarantee="at_most_once")))) == []
    # A topology that does not run is one warning.
    idle = with_members(lines=0, split=0)
    assert [*check_groups(idle), *check_ackers(idle), *check_idle(observed())] == []
    assert summaries(list(check_idle(idle))) == [("warning", "groups", "words")]
    # Groups without an ACL for Describe are a note.
    unknown = with_members(lines=0, split=None)
    assert [*check_idle(unknown), *check_ackers(with_members(acker=None))] == []
    assert summaries(list(check_groups(unknown))) == [("note", "groups", "words.split")]
    # Spark jobs join no group.
    spark = with_members(observed(manifest(external=True)), lines=0, split=0)
    assert [*check_groups(spark), *check_idle(spark), *check_ackers(spark)] == []
    assert summaries(list(check_ackers(with_members(spark, acker=0)))) == [("warning", "ackers", "words")]


def test_a_lag_that_takes_longer_than_the_message_timeout() -> None:
    """200 records in 2 s, and a timeout of 30 s."""
    assert lags(lag_change(after=3_000)) == []
    (late,) = lags(lag_change(after=3_001))
    assert summaries([late]) == [("problem", "lag", "words.split")]
    assert "it needs 30 s for them, but their trees time out after 30 s" in late.found
    assert late.found.endswith("it grows.")
    assert "and does 0.5 a second: it needs 8,000 s" in lags(lag_change(after=4_000, done=1))[0].found
    # Ackers that lag fail no tree.
    assert summaries(lags(lag_change("acker", "acks", after=10_000))) == [("warning", "lag", "words.acker")]
    # Without a process or without trees there are no timeouts to report.
    much = lag_change(after=1_000_000)
    assert lags(much, of=with_members(split=0)) == []
    assert lags(much, of=observed(manifest(guarantee="at_most_once"))) == []


def test_a_spout_that_lags_behind_its_source() -> None:
    """Its oldest open tree may hold it for a while; a shrinking lag is not a finding."""
    (late,) = lags(source(after=3_001))
    assert summaries([late]) == [("warning", "lag", "words.lines")]
    assert "a lag of 3,001 messages of orders, partition 0, and does 100 a second" in late.found
    for fine in (source(after=3_000), source(after=3_001, before=3_001), source(done=0)):
        assert lags(fine) == []
    # Open trees are no lag: a window downstream holds them, and its group's offset with them.
    held = source(before=4_000, after=4_420, done=2)
    assert "and does 1 a second: it needs 4,420 s" in lags(held)[0].found
    assert lags(held, of=reporting("lines", pending=4_400)) == []
    assert lags(held, of=reporting("lines", pending=100)) != []


def test_an_input_that_is_never_acked_is_no_lag() -> None:
    place = "words.tuples.split[0] offset 12"
    found = lags(lag_change(done=0), of=reporting(oldest_input=place, oldest_input_seconds=31.0))
    assert summaries(found) == [("warning", "inputs", "split")]
    assert f"neither acked nor failed {place} for 31 s" in found[0].found
    assert found[0].remedy.endswith("acker trace --tuple split/0@12 --topology words.")
    soon = reporting(oldest_input=place, oldest_input_seconds=30.0)
    assert summaries(lags(lag_change(done=0), of=soon)) == STANDING


def test_a_message_at_which_the_offset_of_a_source_stays_is_a_warning() -> None:
    held = OpenMessage("words.lines", "text", 3, 1_000, 12, 61.4, 299, 2)
    open_ = replace(held, failures=0, age_seconds=None)
    found = list(check_open_messages(replace(observed(), open_messages=(held, open_))))
    assert summaries(found) == [("warning", "open-messages", "words.lines")] * 2
    assert "text[3] offset 1000 has failed 12 times and is 61 s old: the offset of group words.lines" in found[0].found
    assert found[0].found.endswith("stays there. Done past it: 299 messages; open, with it: 2.")
    assert "text[3] offset 1000 is open: the offset" in found[1].found


def test_a_partition_without_progress_is_a_warning() -> None:
    (finding,) = lags(lag_change(done=0))
    assert summaries([finding]) == STANDING == summaries(lags(lag_change(done=0), of=reporting(unread=20)))
    assert "has made no progress in words.tuples.split, partition 0, for 2.0 s; the lag of" in finding.found
    assert finding.remedy.endswith("To see whether it did not ack one: acker trace --oldest 1 --topology words.")
    # What has just come is not lag.
    for before, after in ((0, 3), (10, 0)):
        assert lags(lag_change(done=0, before=before, after=after)) == []


def test_a_bolt_that_fails_all_its_tuples_is_a_problem() -> None:
    other = {"last_error": "TimeoutError: of a tuple that is retried"}
    failing = reporting(failing=True, failed_per_second=812.0, last_failure="ValueError: a bad word", **other)
    (finding,) = found = list(check_failing(failing))
    assert summaries(found) == [("problem", "failures", "split")]
    assert "Bolt split fails all its tuples, 812.0 a second, and acks none" in finding.found
    assert finding.found.endswith("The last reason: ValueError: a bad word.")
    assert judge(failing) == [finding]
    assert exit_code(found, strict=False) == 2
    assert finding.component == "split"
    assert list(check_failing(reporting(failed_per_second=1.0, executed_per_second=100.0))) == []


def test_a_bolt_in_a_long_execute_is_not_one_without_a_process() -> None:
    """Its process may have left the group, and nothing is acked meanwhile."""
    place = "words.tuples.split[0] offset 12"
    hung: dict[str, Any] = {"execute_seconds": 420.0, "execute_at": f"{place} (geo.py:42 in fetch)"}
    executing = reporting(oldest_input=place, oldest_input_seconds=421.0, unread=100, **hung)
    executing = with_members(replace(executing, lag_changes=(lag_change(done=0),)), split=0)
    found = judge(executing)
    assert found == judge(with_members(executing, split=1))
    assert summaries(found) == [("problem", "execute", "split")]
    assert f"Bolt split: one execute has been running for 420 s, at {place} (geo.py:42 in fetch)." in found[0].found
    # Two thirds of the message timeout of 30 s.
    assert list(check_executes(reporting(execute_seconds=20.0, execute_at=place))) == []
    assert summaries(list(check_executes(reporting(execute_seconds=20.5, execute_at=place)))) == summaries(found)


def test_what_a_bolt_holds_is_no_lag() -> None:
    """A window holds 9,000 records: the group's offset stops at the first of them, and moves when it closes."""
    place = "words.tuples.split[0] offset 12"
    held: dict[str, Any] = {"pending": 9_000, "oldest_input": place, "oldest_input_seconds": 20.0}
    still, slow = lag_change(done=0, before=9_000, after=9_002), lag_change(done=4, before=9_000, after=9_002)
    assert summaries(lags(still)) == STANDING
    assert "and does 2 a second: it needs 4,501 s" in lags(slow)[0].found
    for each in (still, slow):
        assert lags(each, of=reporting(unread=0, **held)) == []
        # What came while statistics were made is soon executed.
        assert lags(each, of=reporting(unread=50, executed_per_second=100.0, **held)) == []
    (late,) = lags(slow, of=reporting(unread=9_000, executed_per_second=100.0, **held))
    assert "has a lag of 9,000 records" in late.found
    assert "and does 100 a second: it needs 90 s" in late.found
    # With an offset that moves, commits have the rate.
    assert lags(lag_change(after=3_001), of=reporting(unread=3_001, executed_per_second=9_000.0)) != []


PLACE = "words.tuples.split[0] offset 12"
FAILED = {"place": PLACE, "times": 9, "error": "ValueError: a bad word", "component": "split", "seconds": 31.0}


def test_a_call_within_its_time_limit_is_no_finding_and_advice_fits_what_holds_the_input() -> None:
    late: dict[str, Any] = {"oldest_input": PLACE, "oldest_input_seconds": 90.0}
    assert list(check_inputs(reporting(**late, settings={"time_limit_ms": 150_000, "concurrency": 8}))) == []
    (plain,) = check_inputs(reporting(**late))
    assert "window" not in plain.remedy
    assert "The bolt has to ack or fail each input" in plain.remedy
    (hangs,) = check_inputs(reporting(**{**late, "oldest_input_seconds": 181.0}, settings={"time_limit_ms": 150_000}))
    assert hangs.subject == "split"
    # Its chained bolts work on its inputs.
    made = manifest_of(spout("lines"), bolt("split", "lines", streams=spout("lines").streams), chained("keep", "split"))
    limited = {"keep": {"settings": {"time_limit_ms": 150_000}}, "split": late}
    assert list(check_inputs(observed(made, **limited))) == []


def test_only_a_tuple_that_fails_again_and_again_is_reported_as_such() -> None:
    """A service that fails 3 % of its calls always has some tuples that wait for a retry."""
    busy = reporting(
        retrying=6, oldest_input=PLACE, oldest_input_seconds=29.0, most_failed={**FAILED, "times": 2, "seconds": 1.0}
    )
    busy.components["split"]["recent"]["retried"] = 400
    assert judge(busy) == []
    again = reporting(retrying=1, most_failed=FAILED, oldest_input=PLACE, oldest_input_seconds=31.0)
    (finding,) = judge(again)
    assert (finding.check, finding.component) == ("retries", "split")
    assert f"the tuple at {PLACE} again and again, for 31 s: it has failed 9 times" in finding.found
    assert "the last time with ValueError: a bad word." in finding.found
    assert "RetryPolicy(max_retries=" in finding.remedy
    (limited,) = check_retries(reporting(retrying=1, most_failed=FAILED, settings={"max_retries": 15}))
    assert limited.found.endswith("Its RetryPolicy gives it up after 15 retries.")
    assert "max_retries" not in limited.remedy


def test_a_finding_about_a_dead_letter_has_the_error_of_that_one() -> None:
    made = reporting(last_error="TimeoutError: of another tuple", last_dead_letter=f"{PLACE}, exception: a bad word")
    made.components["split"]["recent"]["dead_letters"] = 1
    (finding,) = check_dead_letters(made)
    assert finding.found.endswith(f"in the last minute. The last one: {PLACE}, exception: a bad word.")
    assert "acker dead-letters replay" in finding.remedy
    made.components["split"]["head"] = "lines"
    (finding,) = check_dead_letters(made)
    assert "send their messages to the source topic again: split is chained to lines" in finding.remedy


def test_a_finding_about_a_message_has_the_failure_of_that_message() -> None:
    open_ = OpenMessage("words.lines", "text", 3, 1_000, 12, 61.4, 299, 2)
    failed = {**FAILED, "place": "text[3] offset 1000"}

    def finding(most_failed: dict[str, Any], **figures: Any) -> Finding:
        others = {"split": {"last_error": "TimeoutError: of another", "last_failure": "of another"}}
        of = observed(None, lines={"most_failed": most_failed, **figures}, **others)
        (found,) = check_open_messages(replace(of, open_messages=(open_,)))
        assert "of another" not in found.found
        return found

    assert (
        "and is 61 s old, the last time in bolt split with ValueError: a bad word: the offset" in finding(failed).found
    )
    assert finding(failed).component == "split"
    assert finding({**failed, "place": "text[2] offset 1000"}).component == "lines"
    assert "A KafkaSpout with max_retries" in finding(failed).remedy
    limited = finding(failed, settings={"max_retries": 15}).remedy
    assert limited.endswith("It becomes a dead letter after 15 retries, as its RetryPolicy says.")


def test_a_bolt_that_works_again_is_no_finding_about_the_process_before() -> None:
    ended: dict[str, Any] = {
        "ended_by": "ValueError: a bad word",
        "ended_seconds_ago": 53.0,
        "ended_times": 1,
        "youngest_seconds": 12.0,
    }
    works = {**ended, "owned_tasks": 2, "executed_per_second": 730.0}
    assert judge(reporting(**works)) == []
    (again,) = check_groups(reporting(**{**works, "ended_times": 4}))
    assert "has ended 4 times in the last minute, the last time 53 s ago, by an error: ValueError" in again.found
    for down in (reporting(**ended, owned_tasks=0), with_members(reporting(**ended), split=0)):
        (finding,) = check_groups(down)
        assert "has ended 53 s ago, by an error: ValueError" in finding.found


def test_late_tuples_that_go_to_a_stream_are_no_finding() -> None:
    def late(**figures: Any) -> list[Finding]:
        of = reporting(**figures)
        of.components["split"]["recent"].update({"late_tuples": 300, "executed": 1_000})
        return [*check_late(of)]

    assert summaries(late()) == [("warning", "late-tuples", "split")]
    assert late(settings={"late_stream": 1}) == []


def test_a_remedy_that_is_set_already_is_not_proposed() -> None:
    much = lag_change(after=4_000)
    (few,) = lags(much, of=reporting(processes=1))
    assert few.remedy.startswith(
        "Start more processes, up to its 2 tasks, make its execute faster, or wait in an Async"
    )
    (all_,) = lags(much, of=reporting(processes=2, settings={"concurrency": 8}))
    assert all_.remedy.startswith("Declare more tasks, make its execute_async faster, or raise its concurrency, 8")
