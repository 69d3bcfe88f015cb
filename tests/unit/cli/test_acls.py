"""`acker topics acls`: roles as commands."""

import json

import pytest

from acker_cli.cluster.acls import Principals, as_json, chosen_roles, commands
from acker_cli.errors import SettingsError
from kafka_clients.access import component_role, operator_role, roles
from tests.manifests import chained, spout
from tests.manifests import manifest as manifest_of
from tests.pages import ROOT
from tests.unit.cli.running import call_acker
from tests.unit.kafka_clients.test_access import manifest

COMMAND = ("kafka-acls",)


def test_acls_with_the_same_operations_share_a_command() -> None:
    exact = component_role(manifest(guarantee="exactly_once"), "d")
    lines = list(commands([exact], Principals("t", "User:CN={topology} {role},O=Example").checked([]), COMMAND))
    assert [
        line.replace("kafka-acls --add --allow-principal 'User:CN=t d,O=Example' --operation ", "") for line in lines
    ] == [
        "# bolt d",
        "Read --operation DescribeConfigs --topic t.tuples.d",
        "Write --operation DescribeConfigs --topic t.acks --topic t.dead-letters",
        "Read --topic acker.topologies",
        "Write --topic t.stats",
        "Read --group t.d",
        "Write --transactional-id t.d. --resource-pattern-type prefixed",
    ]
    (described,) = as_json([operator_role(manifest())], Principals("t", operator="User:alice"))
    assert described["principal"] == "User:alice"
    operations = ["Create", "Describe", "DescribeConfigs"]
    assert described["acls"][0] == {"resource": "topic", "name": "t.", "pattern": "prefixed", "operations": operations}


def test_invalid_principals_and_roles_are_rejected() -> None:
    for principal in ("alice", "User:", ":alice"):
        for principals in (Principals("t", principal), Principals("t", operator=principal)):
            with pytest.raises(SettingsError, match="is not a principal"):
                principals.checked([])
    assert [role.name for role in chosen_roles(roles(manifest()), ["d", "acker"])] == ["acker", "d"]
    with pytest.raises(SettingsError, match="no role 'x': the topology has a, acker, b, c, d, operator"):
        chosen_roles(roles(manifest()), ["x"])
    with pytest.raises(SettingsError, match="'p' is a chained bolt without a role of its own: give --role a"):
        chosen_roles(roles(manifest_of(spout("a"), chained("p", "a"), topology="t")), ["p"])
    named = roles(manifest_of(spout("operator"), topology="t"))
    with pytest.raises(SettingsError, match="--operator PRINCIPAL"):
        Principals("t").checked(named)
    alice = Principals("t", operator="User:alice").checked(named)
    assert [entry["principal"] for entry in as_json(named, alice)] == ["User:alice", "User:t.acker", "User:t.operator"]


def test_the_command_connects_to_no_broker() -> None:
    named = ("examples.word_count:topology", "--bootstrap-servers", "kafka-1:9093")
    run = call_acker("topics", "acls", *named, "--role", "viewer", cwd=ROOT)
    assert run.stdout.startswith("# a user of acker top, trace, status, doctor and dashboard\n"), run.stderr
    start = "kafka-acls --bootstrap-server kafka-1:9093 --command-config admin.properties --add --allow-principal "
    assert f"{start}User:word-count.viewer --operation Read --group acker.catalogue\n" in run.stdout
    shown = json.loads(call_acker("topics", "acls", *named, "--json", cwd=ROOT).stdout)
    assert [entry["role"] for entry in shown["roles"]][:2] == ["operator", "acker"]
