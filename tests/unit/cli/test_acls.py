"""`acker topics acls`: roles as commands."""

import json

import pytest

from acker_cli.acls import Principals, as_json, chosen_roles, commands
from acker_cli.errors import SettingsError
from tests.pages import ROOT
from tests.unit.cli.running import call_acker
from tests.unit.tuple_tree.test_access import WORD, manifest
from tuple_tree.access import component_role, operator_role, roles
from tuple_tree.manifest import Manifest, SpoutManifest

COMMAND = ("kafka-acls",)


def test_what_has_the_same_operations_shares_a_command() -> None:
    creates = "--operation Create --operation Describe --operation DescribeConfigs"
    lines = list(commands([operator_role(manifest()), component_role(manifest(), "d")], Principals("t"), COMMAND))
    assert [line.replace("kafka-acls --add --allow-principal User:t.", "") for line in lines] == [
        "# whoever runs acker topics create",
        f"operator {creates} --topic t. --resource-pattern-type prefixed",
        f"operator {creates} --operation Write --topic acker.topologies",
        "",
        "# bolt d",
        "d --operation Read --operation DescribeConfigs --topic t.tuples.d",
        "d --operation Write --operation DescribeConfigs --topic t.acks --topic t.dead-letters",
        "d --operation Read --topic acker.topologies",
        "d --operation Write --topic t.stats",
        "d --operation Read --group t.d",
    ]
    (described,) = as_json([operator_role(manifest())], Principals("t", operator="User:alice"))
    assert described["principal"] == "User:alice"
    assert described["acls"][0] == {
        "resource": "topic", "name": "t.", "pattern": "prefixed",
        "operations": ["Create", "Describe", "DescribeConfigs"],
    }  # fmt: skip


def test_the_commands_of_special_resources() -> None:
    exact = [component_role(manifest(guarantee="exactly_once"), "d")]
    assert list(commands(exact, Principals("t"), COMMAND))[-1] == (
        "kafka-acls --add --allow-principal User:t.d --operation Write --transactional-id t.d. "
        "--resource-pattern-type prefixed"
    )
    assert as_json(exact, Principals("t"))[0]["acls"][-1] == {
        "resource": "transactional-id", "name": "t.d.", "pattern": "prefixed", "operations": ["Write"],
    }  # fmt: skip
    old = list(commands(roles(manifest(), before_2_8=True), Principals("t"), COMMAND))
    assert "kafka-acls --add --allow-principal User:t.a --operation IdempotentWrite --cluster" in old
    external = list(commands([component_role(manifest(external=True), "a")], Principals("t"), COMMAND))
    assert external[0] == "# external spout a"
    assert external[1].startswith("# its source is a function")
    quoted = Principals("t", "User:CN={topology} {role},O=Example").checked([])
    assert (
        "--allow-principal 'User:CN=t a,O=Example'"
        in list(commands([component_role(manifest(), "a")], quoted, COMMAND))[1]
    )


def test_principals_and_roles_that_are_refused() -> None:
    for principal in ("alice", "User:", ":alice"):
        for principals in (Principals("t", principal), Principals("t", operator=principal)):
            with pytest.raises(SettingsError, match="is no principal"):
                principals.checked([])
    assert [role.name for role in chosen_roles(roles(manifest()), ["d", "acker"])] == ["acker", "d"]
    with pytest.raises(SettingsError, match="no role 'x': the topology has a, acker, b, c, d, operator"):
        chosen_roles(roles(manifest()), ["x"])
    named = roles(
        Manifest.of(topology="t", max_tree_age_ms=300_000, components=(SpoutManifest(name="operator", streams=WORD),))
    )
    with pytest.raises(SettingsError, match="--operator PRINCIPAL"):
        Principals("t").checked(named)
    alice = Principals("t", operator="User:alice").checked(named)
    assert [entry["principal"] for entry in as_json(named, alice)] == ["User:alice", "User:t.acker", "User:t.operator"]


def test_the_command_asks_no_broker() -> None:
    def acker(*arguments: str) -> str:
        run = call_acker("topics", "acls", "examples.word_count:topology", *arguments, cwd=ROOT)
        assert run.returncode == 0, run.stderr
        return run.stdout

    start = "kafka-acls --bootstrap-server kafka-1:9093 --command-config admin.properties --add --allow-principal "
    first, *lines = acker("--role", "viewer", "--bootstrap-servers", "kafka-1:9093").splitlines()
    looks = "User:word-count.viewer --operation Read --operation DescribeConfigs"
    assert first == "# whoever looks into it"
    assert [line.removeprefix(start) for line in lines[1:]] == [
        f"{looks} --topic word-count. --resource-pattern-type prefixed",
        f"{looks} --topic acker.topologies",
        "User:word-count.viewer --operation Describe --group word-count. --resource-pattern-type prefixed",
        "User:word-count.viewer --operation Read --group acker.catalogue",
    ]
    assert [entry["role"] for entry in json.loads(acker("--json"))["roles"]][:2] == ["operator", "acker"]
