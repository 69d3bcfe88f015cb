"""The ACLs of each role; tests on a broker check that they are sufficient and necessary."""

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
)
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


def test_a_spout_reads_its_own_notices_and_writes_to_its_receivers_alone() -> None:
    assert uses(component_role(manifest(), "a")) == {
        "topic:t.notices.a": "r", "topic:t.acks": "w", "topic:t.tuples.c": "w", "topic:t.dead-letters": "w",
        "topic:t.stats": "w", "group:t.a": "r",
    }  # fmt: skip


def test_without_acking_there_are_no_acks_and_no_ackers() -> None:
    untracked = manifest(guarantee="at_most_once")
    assert [role.name for role in roles(untracked)] == ["operator", "a", "b", "c", "d"]
    assert uses(component_role(untracked, "a")) == {
        "topic:t.notices.a": "r", "topic:t.tuples.c": "w", "topic:t.dead-letters": "w", "topic:t.stats": "w",
        "group:t.a": "r",
    }  # fmt: skip
    assert uses(component_role(untracked, "d")) == {
        "topic:t.tuples.d": "r", "topic:t.dead-letters": "w", "topic:t.stats": "w", "group:t.d": "r",
    }  # fmt: skip


def test_with_exactly_once_a_bolt_has_transactional_ids_of_its_own() -> None:
    exact = manifest(guarantee="exactly_once")
    (permission,) = [each for each in component_role(exact, "c").permissions if each.resource == "transactional-id"]
    assert (permission.name, permission.operations, permission.prefixed) == ("t.c.", (Operation.WRITE,), True)
    assert transactional_id("t", "c", "1") == "t.c.1"
    assert not transactional_id("t", "c-2", "1").startswith(permission.name)
    others = [acker_role(exact), operator_role(exact), component_role(exact, "a")]
    others.append(component_role(manifest(guarantee="exactly_once", external=True), "c"))
    assert not any(each.resource == "transactional-id" for role in others for each in role.permissions)


def test_a_bolt_with_a_state_reads_and_writes_its_changelog_in_transactions() -> None:
    stateful = manifest_of(spout("a"), counting("c", "a"), topology="t")
    used = uses(component_role(stateful, "c"))
    assert (used["topic:t.state.c"], used["transactional-id:t.c."]) == ("rw", "w")
    others = (acker_role(stateful), component_role(stateful, "a"))
    assert not any("t.state.c" in resource for role in others for resource in uses(role))


def test_a_bolt_whose_windows_close_writes_their_results() -> None:
    windows = manifest_of(spout("a"), counting("c", "a", windows="close"), topology="t")
    assert uses(component_role(windows, "c"))["topic:t.results.c"] == "w"
    changes = manifest_of(spout("a"), counting("c", "a", windows="change"), topology="t")
    assert "topic:t.results.c" not in uses(component_role(changes, "c"))


def test_a_bolt_with_a_state_may_describe_the_groups_and_topics_of_the_kafka_spouts_upstream() -> None:
    stateful = manifest_of(spout("a"), spout("b"), counting("c", "a"), topology="t")
    role = component_role(stateful, "c", upstream={"a": ("lines", "words"), "b": "other"})
    described = [each for each in role.permissions if each.operations == (Operation.DESCRIBE,)]
    assert [(each.resource, each.name) for each in described] == [
        ("group", "t.a"),
        ("topic", "lines"),
        ("topic", "words"),
    ]
    (of_bolt,) = [role for role in roles(stateful, {"a": "lines"}) if role.name == "c"]
    assert of_bolt == component_role(stateful, "c", upstream={"a": "lines"})


def test_a_bolt_that_recognises_replays_may_describe_the_groups_of_the_kafka_spouts_upstream() -> None:
    windows = bolt("w", "a").model_copy(update={"recognises_replays": True})
    role = component_role(manifest_of(spout("a"), windows, topology="t"), "w", upstream={"a": "lines"})
    described = {(each.resource, each.name) for each in role.permissions if each.operations == (Operation.DESCRIBE,)}
    assert described == {("group", "t.a"), ("topic", "lines")}


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
    read, write = Operation.READ, Operation.WRITE
    cases: list[tuple[tuple[Operation, ...], list[str] | None, str]] = [
        ((read,), None, ""),
        ((read,), ["READ", "DESCRIBE"], ""),
        ((read,), [], "has no DESCRIBE ACL for this user"),
        ((write,), ["READ"], "may not be written by this user"),
        ((read, write), ["DESCRIBE"], "may not be read or written by this user"),
        ((Operation.DESCRIBE_CONFIGS,), ["READ"], "may not be asked for its settings by this user"),
    ]
    for needed, allowed, message in cases:
        assert shortfall(needed, allowed) == message
    assert remedy("split") == "allow it with what acker topics acls MODULE:TOPOLOGY --role split prints"
    assert "--role" not in remedy()


def test_a_component_of_the_sdk_reads_the_statistics_of_the_tasks_that_share_a_shuffle() -> None:
    cases: tuple[tuple[int, Grouping, bool, str], ...] = (
        (2, "shuffle", False, "rw"),
        (2, "none", False, "rw"),
        (2, "local_or_shuffle", False, "rw"),
        (1, "shuffle", False, "w"),
        (2, "global", False, "w"),
        (2, "shuffle", True, "w"),
    )
    for tasks, grouping, external, uses_of_stats in cases:
        receives = Subscription(source="a", stream="default", grouping=grouping)
        receiver = BoltManifest(name="b", tasks=tasks, subscriptions=(receives,))
        made = manifest_of(spout("a", external=external), receiver, topology="t")
        role = component_role(made, "a")
        assert uses(role)["topic:t.stats"] == uses_of_stats
        assert "t.stats" not in role.needed_topics
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
    assert uses(head) == {
        "topic:t.notices.a": "r", "topic:t.acks": "w", "topic:t.tuples.c": "w", "topic:t.dead-letters": "w",
        "topic:t.stats": "w", "group:t.a": "r", "topic:lines": "r", "topic:out": "w",
    }  # fmt: skip
    assert targets_of(made, "a", {"w": "out", "d": "other"}) == ("out",)
