"""A Kafka with TLS, SASL and ACLs: its users, and the ACLs that they are given."""

import json
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from kafka_clients.access import Role
from kafka_clients.catalogue import Catalogue
from local_kafka import LocalKafka, Security
from tests.certificates import Authority
from tests.pages import ROOT
from tests.unit.cli.running import RunningAcker, command_line, descendants
from tests.waiting import eventually
from tuple_tree.manifest import Manifest

HERE = ROOT
"""Where the modules of the tests are found."""

# Its parameters are optional, and not declared so.
acl_filter: Any = AclBindingFilter

_BROKER = "broker"
_SECONDS = 60


class SecuredKafka:
    """A broker without users at first.

    Attributes:
        authority: whose certificates it trusts.
        super_user: settings for which there are no limits.
    """

    def __init__(self, directory: Path) -> None:
        self.authority = Authority(directory)
        security = Security(self.authority.issue(_BROKER).both, self.authority.path, (_BROKER,))
        self.broker = LocalKafka(security=security)
        self._security = security

    def __enter__(self) -> Self:
        self.broker.start()
        self.super_user = {
            "bootstrap.servers": self.broker.certificate_servers,
            **self._security.client_settings(),
            "log_level": 2,
        }
        self._admin = AdminClient(self.super_user)
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.broker.stop()

    def publish(self, manifest: Manifest) -> None:
        """Creates the topics of a topology, and publishes it."""
        catalogue = Catalogue(self.super_user)
        catalogue.create_topics(manifest)
        catalogue.publish(manifest)

    def with_certificate(self, user: str) -> dict[str, Any]:
        """Settings of a user with a certificate."""
        identity = self.authority.issue(user)
        return {
            "bootstrap.servers": self.broker.certificate_servers,
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.authority.path),
            "ssl.certificate.location": str(identity.certificate),
            "ssl.key.location": str(identity.key),
        }

    def with_password(self, user: str) -> dict[str, Any]:
        """Settings of a new user with a password."""
        # With everything that has to be quoted somewhere, but for what ends a line.
        password = f'{secrets.token_hex(12)} "\\$ü'
        made = UserScramCredentialUpsertion(
            user, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), password.encode()
        )
        self._admin.alter_user_scram_credentials([made])[user].result(_SECONDS)
        settings = {
            "bootstrap.servers": self.broker.bootstrap_servers,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": user,
            "sasl.password": password,
            "ssl.ca.location": str(self.authority.path),
        }
        eventually(lambda: _answers(settings), f"the broker to have user {user}")
        return settings

    def allow(self, bindings: Iterable[AclBinding]) -> None:
        """Adds ACLs, and waits until the broker applies them."""
        added = list(dict.fromkeys(bindings))
        for result in self._admin.create_acls(added).values():
            result.result(_SECONDS)
        eventually(lambda: set(added) <= self._acls(), "the ACLs")

    def forbid(self, principal: str, topic: str) -> None:
        """Removes the ACLs of a user for a topic, and waits until the broker applies that."""
        taken = acl_filter(
            ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, principal, None, AclOperation.ANY,
            AclPermissionType.ANY,
        )  # fmt: skip
        for result in self._admin.delete_acls([taken]).values():
            result.result(_SECONDS)
        eventually(
            lambda: not any(acl.name == topic and acl.principal == principal for acl in self._acls()),
            "no ACLs",
        )

    def _acls(self) -> set[AclBinding]:
        every = acl_filter(
            ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
        )
        return set(self._admin.describe_acls(every).result(_SECONDS))


def environment_of(kafka: Mapping[str, Any]) -> dict[str, str]:
    """Settings as variables of `acker`."""
    return {f"ACKER_KAFKA__{name.replace('.', '_').upper()}": str(value) for name, value in kafka.items()}


def command_lines(command: RunningAcker) -> str:
    """The command lines of a command and of all that it has started, as everybody on the machine can read them."""
    return "\n".join(map(command_line, {command.process.pid, *descendants(command.process.pid)}))


def bindings_of(role: Role, principal: str) -> list[AclBinding]:
    """The ACLs of a role."""
    return [
        binding(each.resource, each.name, each.prefixed, operation.value, principal)
        for each in role.permissions
        for operation in each.operations
    ]


def printed_bindings(printed: str) -> list[AclBinding]:
    """The ACLs that `acker topics acls --json` prints."""
    return [
        binding(acl["resource"], acl["name"], acl["pattern"] == "prefixed", operation, role["principal"])
        for role in json.loads(printed)["roles"]
        for acl in role["acls"]
        for operation in acl["operations"]
    ]


def binding(resource: str, name: str, prefixed: bool, operation: str, principal: str) -> AclBinding:
    """The ACL that allows an operation."""
    return AclBinding(
        ResourceType[resource.upper().replace("-", "_")],
        name,
        ResourcePatternType.PREFIXED if prefixed else ResourcePatternType.LITERAL,
        principal,
        "*",
        next(each for each in AclOperation if each.name.replace("_", "") == operation.upper()),
        AclPermissionType.ALLOW,
    )


def _answers(settings: Mapping[str, Any]) -> bool:
    try:
        AdminClient({**settings, "log_level": 0}).list_topics(timeout=5)
    except KafkaException:
        return False
    return True
