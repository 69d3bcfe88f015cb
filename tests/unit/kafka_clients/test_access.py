"""The ACLs of each role; tests on a broker check that they are sufficient and necessary."""

from typing import Any

import pytest

from kafka_clients.access import (
    Operation,
    Role,
    acker_role,
    client_role,
    component_role,
    operator_role,
    remedy,
    roles,
    shortfall,
    targets_of,
    viewer_role,
)  # fmt: skip
from tests.manifests import bolt, chained, counting, spout
from tests.manifests import manifest as manifest_of
from tuple_tree.components import BoltManifest, Grouping, OutcomesManifest, Subscription
from tuple_tree.manifest import Guarantee, Manifest
from tuple_tree.names import transactional_id
from tuple_tree.streams import declare


def manifest(*, guarantee: Guarantee = "at_least_once", external: bool = False) -> Manifest:
    c = bolt("c", "a", "b", "c", streams=(declare("word"),), external=external)
    components = (spout("a", external=external), spout("b"), c, bolt("d", "c"))
    return manifest_of(*components, topology="t", guarantee=guarantee)


def uses(role: Role) -> dict[str, str]:
    """Resource → first letters of the operations, those of commands left out."""
    letters = {Operation.READ: "r", Operation.WRITE: "w", Operation.CREATE: "c"}
    return {
        f"{each.resource}:{each.name}": "".join(sorted(letters[op] for op in each.operations if op in letters))
        for each in role.permissions
        if each.name != "acker.topologies"
    }


SHARED = {"topic:t.dead-letters": "w", "topic:t.stats": "w"}
SPOUT = {**SHARED, "topic:t.notices.a": "r", "topic:t.tuples.c": "w", "group:t.a": "r"}


def test_a_spout_reads_its_own_notices_and_writes_to_its_receivers_alone() -> None:
    assert uses(component_role(manifest(), "a")) == {**SPOUT, "topic:t.acks": "w"}


def test_without_acking_there_are_no_acks_and_no_ackers() -> None:
    untracked = manifest(guarantee="at_most_once")
    assert [role.name for role in roles(untracked)] == ["operator", "a", "b", "c", "d"]
    assert uses(component_role(untracked, "a")) == SPOUT
    assert uses(component_role(untracked, "d")) == {**SHARED, "topic:t.tuples.d": "r", "group:t.d": "r"}


def test_with_exactly_once_a_bolt_has_transactional_ids_of_its_own() -> None:
    exact = manifest(guarantee="exactly_once")
    (permission,) = [each for each in component_role(exact, "c").permissions if each.resource == "transactional-id"]
    assert (permission.name, permission.operations, permission.prefixed) == ("t.c.", (Operation.WRITE,), True)
    assert transactional_id("t", "c", "1") == "t.c.1"
    assert not transactional_id("t", "c-2", "1").startswith(permission.name)
    others = [acker_role(exact), operator_role(exact), component_role(exact, "a")]
    others.append(component_role(manifest(guarantee="exactly_once", external=True), "c"))
    assert not any(each.resource == "transactional-id" for role in others for each in role.permissions)


def described(role: Role) -> set[tuple[str, str]]:
    """The resources that may be described alone."""
    return {(each.resource, each.name) for each in role.permissions if each.operations == (Operation.DESCRIBE,)}


def test_a_bolt_with_a_state_has_its_changelog_in_transactions_and_describes_the_kafka_spouts_upstream() -> None:
    stateful = manifest_of(spout("a"), spout("b"), counting("c", "a"), topology="t")
    role = component_role(stateful, "c", upstream={"a": ("lines", "words"), "b": "other"})
    used = uses(role)
    assert (used["topic:t.state.c"], used["transactional-id:t.c."]) == ("rw", "w")
    others = (acker_role(stateful), component_role(stateful, "a"))
    assert not any("t.state.c" in resource for other in others for resource in uses(other))
    assert described(role) == {("group", "t.a"), ("topic", "lines"), ("topic", "words")}
    (of_bolt,) = [role for role in roles(stateful, {"a": "lines"}) if role.name == "c"]
    assert of_bolt == component_role(stateful, "c", upstream={"a": "lines"})


@pytest.mark.parametrize("windows", ["close", "change"])
def test_a_bolt_whose_windows_close_writes_their_results(windows: Any) -> None:
    made = manifest_of(spout("a"), counting("c", "a", windows=windows), topology="t")
    assert uses(component_role(made, "c")).get("topic:t.results.c") == ("w" if windows == "close" else None)


def test_a_component_in_spark_needs_no_describe_configs() -> None:
    role = component_role(manifest(external=True), "c")
    assert uses(role)["group:t.c"] == "r"
    assert {op for each in role.permissions for op in each.operations} == {Operation.READ, Operation.WRITE}


def test_a_spout_reads_its_source_or_lands_it() -> None:
    of_a_topic = {role.name: uses(role) for role in roles(manifest(external=True), {"a": "lines"})}
    assert (of_a_topic["a"]["topic:lines"], of_a_topic["a"]["group:t.a"]) == ("r", "r")
    assert "topic:lines" not in of_a_topic["b"]
    of_a_function = component_role(manifest(external=True), "a")
    assert uses(of_a_function)["topic:t.replay.a"] == "crw"
    assert "allow Read" in of_a_function.note
    of_the_sdk = uses(component_role(manifest(), "a", ("lines", "words")))
    assert of_the_sdk == {**uses(component_role(manifest(), "a")), "topic:lines": "r", "topic:words": "r"}


def test_only_the_ackers_write_notices_and_read_acks() -> None:
    for role in roles(manifest()):
        topics = {each.name: each.operations for each in role.permissions if each.resource == "topic"}
        assert role.name in ("operator", "acker") or set(topics) - set(role.needed_topics) == {"t.stats"}
        for topic, operations in topics.items():
            if topic.startswith("t.notices"):
                assert (Operation.WRITE in operations) == (role.name == "acker")
            if topic == "t.acks":
                assert (Operation.READ in operations) == (role.name == "acker")


def test_a_viewer_has_read_only_acls_and_is_not_listed() -> None:
    role = viewer_role(manifest())
    looks = {Operation.READ, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS}
    assert {operation for each in role.permissions for operation in each.operations} == looks
    assert {each.operations for each in role.permissions if each.resource == "group" and each.prefixed} == {
        (Operation.DESCRIBE,)
    }, "who may read a group may join it, and take its partitions away"
    assert role.name not in {each.name for each in roles(manifest())}
    with_sources = viewer_role(manifest(), {"lines": ("text", "more")})
    assert {each.name: each.operations for each in with_sources.permissions if each not in role.permissions} == {
        "text": (Operation.READ,),
        "more": (Operation.READ,),
    }


def test_answers_are_written_by_the_bolt_and_the_spouts_before_it_and_read_by_clients_alone() -> None:
    answering = bolt("c", "a").model_copy(update={"answers": True})
    done = OutcomesManifest(topic="done")
    spouts = (spout("a"), spout("b").model_copy(update={"outcomes": done}), spout("e"))
    described = manifest_of(*spouts, answering, bolt("d", "b"), topology="t")
    writers = [role.name for role in roles(described) if uses(role).get("topic:t.answers") == "w"]
    assert writers == ["a", "c"]
    sources = {"a": ("orders", "returns"), "b": "bills", "e": "others"}
    client = client_role(described, sources)
    assert uses(client) == {
        "topic:t.answers": "r", "topic:done": "r", "topic:orders": "w", "topic:returns": "w", "topic:bills": "w",
        "group:acker.catalogue": "r",
    }  # fmt: skip
    assert client.name not in {each.name for each in roles(described)}


def test_missing_acls_are_described() -> None:
    cases: list[tuple[tuple[Operation, ...], list[str] | None, str]] = [
        ((Operation.READ,), None, ""),
        ((Operation.READ,), ["READ", "DESCRIBE"], ""),
        ((Operation.READ,), [], "has no DESCRIBE ACL for this user"),
        ((Operation.WRITE,), ["READ"], "may not be written by this user"),
        ((Operation.READ, Operation.WRITE), ["DESCRIBE"], "may not be read or written by this user"),
        ((Operation.DESCRIBE_CONFIGS,), ["READ"], "may not be asked for its settings by this user"),
    ]
    assert [shortfall(needed, allowed) for needed, allowed, _ in cases] == [message for *_, message in cases]
    assert remedy("split") == "allow it with what acker topics acls MODULE:TOPOLOGY --role split prints"
    assert "--role" not in remedy()


def test_a_component_of_the_sdk_reads_the_statistics_of_the_tasks_that_share_a_shuffle() -> None:
    shared: list[Grouping] = ["shuffle", "none", "local_or_shuffle"]
    cases: list[tuple[int, Grouping, bool, str]] = [
        *((2, grouping, False, "rw") for grouping in shared),
        *((1, "shuffle", False, "w"), (2, "global", False, "w"), (2, "shuffle", True, "w")),
    ]
    for tasks, grouping, external, uses_of_stats in cases:
        receives = Subscription(source="a", stream="default", grouping=grouping)
        receiver = BoltManifest(name="b", tasks=tasks, subscriptions=(receives,))
        made = manifest_of(spout("a", external=external), receiver, topology="t")
        assert uses(component_role(made, "a"))["topic:t.stats"] == uses_of_stats
        assert "t.stats" not in component_role(made, "a").needed_topics
        assert uses(component_role(made, "b"))["topic:t.stats"] == "w"


def test_a_component_has_the_permissions_of_its_chained_bolts_which_have_no_role() -> None:
    words = (declare("word"),)
    chain = (chained("p", "a", tasks=2, streams=words), chained("f", "p", tasks=2, streams=words))
    writer = chained("w", "f", tasks=2)
    made = manifest_of(
        spout("a", tasks=2), *chain, writer, bolt("c", "p", "f", streams=words), bolt("d", "c"), topology="t"
    )
    head, *_ = of_components = roles(made, {"a": "lines"}, {"w": "out", "d": "other"})[2:]
    assert [role.name for role in of_components] == ["a", "c", "d"]
    assert (head.title, head.chained) == ("spout a, to which p, f, w are chained", ("p", "f", "w"))
    assert uses(head) == {**SPOUT, "topic:t.acks": "w", "topic:lines": "r", "topic:out": "w"}
    assert targets_of(made, "a", {"w": "out", "d": "other"}) == ("out",)
