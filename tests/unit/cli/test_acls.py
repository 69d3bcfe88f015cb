"""`acker topics acls`: roles as commands."""

import json
from pathlib import Path

import pytest

from acker_cli.acls import Principals, as_json, chosen_roles, commands
from acker_cli.errors import SettingsError
from tests.unit.cli.running import run_acker
from tests.unit.tuple_tree.test_access import WORD, manifest
from tuple_tree.access import component_role, operator_role, roles
from tuple_tree.manifest import Manifest, SpoutManifest

HERE = Path(__file__).parents[3]
COMMAND = ("kafka-acls",)


def test_what_has_the_same_operations_shares_a_command() -> None:
    principals = Principals("t")
    creates = "--operation Create --operation Describe --operation DescribeConfigs"
    lines = list(commands([operator_role(manifest()), component_role(manifest(), "d")], principals, COMMAND))
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


def test_transactional_ids_are_allowed_by_their_beginning() -> None:
    exact = [component_role(manifest(guarantee="exactly_once"), "d")]
    assert list(commands(exact, Principals("t"), COMMAND))[-1] == (
        "kafka-acls --add --allow-principal User:t.d --operation Write --transactional-id t.d. "
        "--resource-pattern-type prefixed"
    )
    assert as_json(exact, Principals("t"))[0]["acls"][-1] == {
        "resource": "transactional-id", "name": "t.d.", "pattern": "prefixed", "operations": ["Write"],
    }  # fmt: skip


def test_what_a_shell_would_take_apart_is_quoted() -> None:
    principals = Principals("t", "User:CN={topology} {role},O=Example").checked([])
    lines = list(commands([component_role(manifest(), "a")], principals, COMMAND))
    assert "--allow-principal 'User:CN=t a,O=Example'" in lines[1]


def test_the_cluster_has_no_name() -> None:
    lines = list(commands(roles(manifest(), before_2_8=True), Principals("t"), COMMAND))
    assert "kafka-acls --add --allow-principal User:t.a --operation IdempotentWrite --cluster" in lines


def test_a_note_stands_above_the_commands() -> None:
    lines = list(commands([component_role(manifest(external=True), "a")], Principals("t"), COMMAND))
    assert lines[0] == "# external spout a"
    assert lines[1].startswith("# its source is a function")


def test_the_same_as_json() -> None:
    described = as_json([operator_role(manifest())], Principals("t", operator="User:alice"))
    assert described[0]["principal"] == "User:alice"
    assert described[0]["acls"][0] == {
        "resource": "topic",
        "name": "t.",
        "pattern": "prefixed",
        "operations": ["Create", "Describe", "DescribeConfigs"],
    }


@pytest.mark.parametrize("principal", ["alice", "User:", ":alice"])
def test_what_is_no_principal(principal: str) -> None:
    with pytest.raises(SettingsError, match="is no principal"):
        Principals("t", principal).checked([])
    with pytest.raises(SettingsError, match="is no principal"):
        Principals("t", operator=principal).checked([])


def test_a_component_that_is_called_like_the_operator() -> None:
    named = roles(
        Manifest.of(topology="t", max_tree_age_ms=300_000, components=(SpoutManifest(name="operator", streams=WORD),))
    )
    with pytest.raises(SettingsError, match="--operator PRINCIPAL"):
        Principals("t").checked(named)
    principals = Principals("t", operator="User:alice").checked(named)
    assert [entry["principal"] for entry in as_json(named, principals)] == [
        "User:alice",
        "User:t.acker",
        "User:t.operator",
    ]


def test_an_unknown_role_names_those_that_are() -> None:
    assert [role.name for role in chosen_roles(roles(manifest()), ["d", "acker"])] == ["acker", "d"]
    with pytest.raises(SettingsError, match="no role 'x': the topology has a, acker, b, c, d, operator"):
        chosen_roles(roles(manifest()), ["x"])


def test_the_command_asks_no_broker() -> None:
    def acker(*arguments: str) -> str:
        run = run_acker("topics", "acls", "examples.word_count:topology", *arguments, cwd=HERE, seconds=60)
        assert run.returncode == 0, run.stderr
        return run.stdout

    text = acker("--role", "split", "--bootstrap-servers", "kafka-1:9093")
    start = "kafka-acls --bootstrap-server kafka-1:9093 --command-config admin.properties --add --allow-principal "
    assert text.splitlines()[0] == "# bolt split"
    assert all(line.startswith(f"{start}User:") for line in text.splitlines()[1:])
    first, *lines = acker("--role", "viewer", "--bootstrap-servers", "kafka-1:9093").splitlines()
    looks = "User:word-count.viewer --operation Read --operation DescribeConfigs"
    assert first == "# whoever looks into it"
    assert [line.removeprefix(start) for line in lines[1:]] == [
        f"{looks} --topic word-count. --resource-pattern-type prefixed",
        f"{looks} --topic acker.topologies",
        "User:word-count.viewer --operation Describe --group word-count. --resource-pattern-type prefixed",
        "User:word-count.viewer --operation Read --group acker.catalogue",
    ]
    described = json.loads(acker("--json"))
    assert [entry["role"] for entry in described["roles"]][:2] == ["operator", "acker"]
