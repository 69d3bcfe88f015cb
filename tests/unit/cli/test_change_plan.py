"""The plan of `acker topics create`: steps in words, by two manifests and what runs."""

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from acker_cli.cluster.change_plan import Running, Step, change_plan, sharing_steps
from tests.manifests import bolt, chained, counting, manifest, spout
from tuple_tree.components import OutcomesManifest, Subscription
from tuple_tree.manifest import Manifest
from tuple_tree.program import fingerprint
from tuple_tree.streams import declare
from tuple_tree.topics import topic_specs
from tuple_tree.versions import received, unreadable

BUSY = Running({"a": 1, "b": 2, "c": 1}, {"b": 7})


def plan(old: Manifest, new: Manifest, running: Running = BUSY, **options: Any) -> list[Step]:
    return change_plan(old, new, [spec.name for spec in topic_specs(old)], running, **options)


def refused(old: Manifest, new: Manifest, running: Running = BUSY, **options: Any) -> str:
    steps = plan(old, new, running, **options)
    assert {step.by for step in steps} == {"refused"}
    return "\n".join(step.text for step in steps)


def todo(old: Manifest, new: Manifest, running: Running = BUSY) -> list[str]:
    steps = plan(old, new, running)
    assert [step.by for step in steps] == sorted(step.by for step in steps)  # the command first, then the user
    return [step.text for step in steps if step.by == "user"]


def test_a_new_topology_has_its_topics_created_and_is_published() -> None:
    new = manifest(spout("a"), bolt("b", "a"))
    steps = change_plan(None, new, ["acker.topologies"], Running())
    assert {step.by for step in steps} == {"command"}
    assert steps[0].text == "create topic words.acks with 8 partitions"
    assert steps[-1].text == "publish the manifest of words"
    assert plan(new, new) == [Step("command", "publish the manifest of words, which has not changed")]


def test_a_topic_of_outcomes_that_another_topology_writes_to_is_named() -> None:
    own, copy = (manifest(spout("a", outcomes=OutcomesManifest(topic="done")), topology=name) for name in ("a", "b"))
    (step,) = sharing_steps(own, {"b": copy, "a": copy, "bad": None})
    assert step.by == "user"
    assert "topic done, to which spout a and spout a of topology b write outcomes" in step.text
    assert sharing_steps(own, {"a": own}) == []


def test_another_program_of_the_same_name_is_refused_unless_it_is_replaced() -> None:
    old, other = manifest(spout("a"), counting("b", "a")), manifest(spout("x"), bolt("y", "x"))
    for running in (BUSY, Running()):
        text = refused(old, other, running, force=True)
        assert "another program has this name: it has the components a, b, and your code has none of them" in text
        assert "--replace publishes it all the same" in text
    steps = plan(old, other, BUSY, replace=True)
    (lost,) = (step.text for step in steps if step.text.startswith("replace another program"))
    assert "the records in its inboxes are not processed (b: 7)" in lost
    assert "the states of b are not used" in lost
    assert "its processes run (a (1 process), b (2 processes), c (1 process)) until you stop them" in lost
    assert Step("user", "stop a (1 process)") in steps


def test_processes_whose_code_is_not_the_published_one_are_in_the_way() -> None:
    """A plan compares two manifests, and theirs is a third one."""
    earlier = manifest(spout("a"), bolt("b", "a"))
    old = manifest(spout("a"), bolt("b", "a", streams=(declare(["word"]),)))
    new = manifest(spout("a"), bolt("b", "a", streams=(declare(["word"]),)), bolt("c", "b"))

    def runs(*codes: Manifest) -> Running:
        return Running({"b": 2}, {}, {"b": [fingerprint(code) for code in codes]})

    assert "neither the published one nor yours: b (2 processes)" in refused(old, new, runs(earlier, old))
    for steps in (
        *(plan(old, new, runs(code)) for code in (old, new)),
        plan(old, earlier, runs(earlier)),
        plan(old, new, runs(earlier), replace=True),
    ):
        assert "refused" not in {step.by for step in steps}


def test_other_partitions_are_refused_whatever_runs() -> None:
    old = manifest(spout("a"), counting("b", "a"), bolt("c", "a", tasks=2))
    more = manifest(spout("a", tasks=2), counting("b", "a", tasks=3), bolt("c", "a"), ack_partitions=4)
    text = refused(old, more, Running(), force=True)
    assert "ack_partitions is 4, and was 8" in text
    assert "'a' has 2 tasks, and had 1: its notices topic" in text
    assert "'b' has 3 tasks, and had 1: its state is kept by partition" in text
    assert "'c' has 1 task, and had 2: Kafka cannot remove partitions" in text
    assert text.count("run a second topology") == 4


def test_a_stopped_bolt_without_a_state_gets_more_tasks() -> None:
    old, more = manifest(spout("a"), bolt("b", "a")), manifest(spout("a"), bolt("b", "a", tasks=3))
    for running in (BUSY, Running({"a": 1}, {"b": 0}), Running({}, {"b": 1})):
        assert "acker topologies stop words --wait" in refused(old, more, running, force=True)
    steps = plan(old, more, Running({}, {"b": 0}))
    assert Step("command", "give words.tuples.b 3 partitions; it has 1") in steps
    assert "refused" not in {step.by for step in steps}


@pytest.mark.parametrize(
    ("new", "text"),
    [
        (
            manifest(spout("a", {"word": int}), bolt("b", "a")),
            "stream 'default' of 'a' has word: long (arrow), and had",
        ),
        (manifest(spout("a"), chained("b", "a")), "'b' is chained to 'a', and had an inbox"),
        (manifest(spout("a"), bolt("b", "a"), guarantee="exactly_once"), "the guarantee is exactly_once, and was"),
        (
            manifest(spout("a"), counting("b", "a")),
            "the state of 'b' is word: string → count: long (json), and was none",
        ),
    ],
)
def test_what_running_processes_misunderstand_is_refused(new: Manifest, text: str) -> None:
    old = manifest(spout("a"), bolt("b", "a"))
    running = refused(old, new)
    assert text in running
    assert "must be stopped first are running (" in running
    assert "b: 2" in running
    assert "acker topologies stop words --wait drains and stops them" in running
    waiting = refused(old, new, Running({}, {"b": 7}))
    assert text in waiting
    assert "would become dead letters" in waiting
    assert "b: 7" in waiting
    for steps in (plan(old, new, Running()), plan(old, new, force=True)):
        assert "refused" not in {step.by for step in steps}


def test_a_bolt_that_gets_an_inbox_may_not_run() -> None:
    old, new = manifest(spout("a"), chained("b", "a")), manifest(spout("a"), bolt("b", "a"))
    assert "'b' has an inbox, and was chained to 'a'" in refused(old, new, Running({"a": 1}))
    assert plan(old, new, Running({}, {})) == [
        Step("command", "create topic words.tuples.b with 1 partition"),
        Step("command", "publish the manifest of words"),
    ]


def test_receivers_of_what_is_new_are_restarted_before_its_emitters() -> None:
    old = manifest(spout("a"), bolt("b", "a"))
    new = manifest(spout("a"), bolt("b", "a", streams=(declare(["word"]),)), bolt("c", "b"))
    assert todo(old, new) == [
        "start processes of c",
        "restart b (2 processes): their new code sends what is new, and no longer what is removed",
    ]
    second = manifest(spout("a"), bolt("b", "a"), bolt("c", "a"))
    both = bolt("c", "a").model_copy(
        update={"subscriptions": tuple(Subscription(source=n, stream="default", grouping="shuffle") for n in "ab")}
    )
    assert todo(second, manifest(spout("a"), bolt("b", "a", streams=(declare(["word"]),)), both)) == [
        "restart c (1 process): their new code reads what is new in their inboxes",
        "restart b (2 processes): their new code sends what is new, and no longer what is removed",
    ]


def test_emitters_of_what_is_removed_are_restarted_before_its_receivers() -> None:
    old = manifest(spout("a"), bolt("b", "a", "c"), bolt("c", "a", streams=(declare(["word"]),)))
    assert todo(old, manifest(spout("a"), bolt("b", "a"), bolt("c", "a", streams=(declare(["word"]),)))) == [
        "restart c (1 process): their new code sends what is new, and no longer what is removed",
        "wait until there is no lag of b (acker topologies show words)",
        (
            "restart b (2 processes): their new code does not read what is removed; tuples of it that still come are "
            "replayed"
        ),
    ]
    assert todo(old, manifest(spout("a"), bolt("b", "a"))) == [
        "restart a (1 process): their new code sends what is new, and no longer what is removed",
        "wait until there is no lag of b, c (acker topologies show words)",
        (
            "restart b (2 processes): their new code does not read what is removed; tuples of it that still come are "
            "replayed"
        ),
        "stop c (1 process)",
        "delete topic words.tuples.c when it has no lag",
    ]


def test_settings_need_a_restart() -> None:
    old = manifest(spout("a"), bolt("b", "a"))
    assert todo(old, manifest(spout("a", timeout_ms=7), bolt("b", "a"), tick_ms=500)) == [
        "restart a (1 process): their settings have changed",
        "restart acker workers that were started with --topology words: tick or max_tree_age changed",
    ]


STREAMS = ("one", "two", "three")
FIELDS: st.SearchStrategy[dict[str, Any]] = st.sampled_from([{"word": str}, {"word": int}, {"word": str, "more": int}])


@st.composite
def topologies(draw: st.DrawFn) -> Manifest:
    """A spout with streams, some received by two bolts."""
    streams = draw(st.lists(st.sampled_from(STREAMS), unique=True, min_size=1))
    declared = tuple(declare(draw(FIELDS), name) for name in sorted(streams))
    bolts = []
    for name in ("b", "c"):
        of = draw(st.lists(st.sampled_from(sorted(streams)), unique=True))
        received_ = tuple(Subscription(source="a", stream=each, grouping="shuffle") for each in of)
        if received_:
            bolts.append(bolt(name).model_copy(update={"subscriptions": received_}))
    return manifest(spout("a").model_copy(update={"streams": declared}), *bolts)


@given(old=topologies(), new=topologies(), data=st.data())
def test_no_tracked_tuple_of_two_versions_is_a_dead_letter_if_the_plan_is_accepted(
    old: Manifest, new: Manifest, data: st.DataObject
) -> None:
    """Whatever is restarted first, and whether the manifest is published before or after that."""
    assume("refused" not in {step.by for step in plan(old, new)})
    sender, receiver, published = (data.draw(st.sampled_from([old, new])) for _ in range(3))
    for name in ("b", "c"):
        for stream in STREAMS:
            source = f"a/{stream}"
            sent, read = received(sender, name, source), received(receiver, name, source)
            if sent is None or (read is not None and (read.fields, read.codec) == (sent.fields, sent.codec)):
                continue
            what = unreadable(receiver, published, name, source, is_tracked=True)
            assert what == ("fail" if received(published, name, source) is None else "wait")


@given(own=topologies(), stream=st.sampled_from(STREAMS), is_tracked=st.booleans())
def test_what_no_version_can_read_is_a_dead_letter(own: Manifest, stream: str, is_tracked: bool) -> None:
    known = received(own, "b", f"a/{stream}") is not None
    what = unreadable(own, own, "b", f"a/{stream}", is_tracked=is_tracked)
    assert what == ("dead_letter" if known or not is_tracked else "fail")
    for source, published in ((f"a/{stream}", None), (None, own)):
        assert unreadable(own, published, "b", source, is_tracked=is_tracked) == "dead_letter"
