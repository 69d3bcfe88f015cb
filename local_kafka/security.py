"""A broker with TLS, SASL and ACLs: an authoriser that refuses what no ACL allows, and two listeners for clients.

One is for users with a password (SASL_SSL, SCRAM-SHA-512), the other for users with a certificate (SSL). The controller
and the broker itself use certificates. A super user creates the users with passwords when the broker runs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

MECHANISM: Final = "SCRAM-SHA-512"

# A certificate is known by its common name, so that user `alice` is the same on both listeners.
_COMMON_NAME: Final = "RULE:^CN=([^,]+).*$/$1/,DEFAULT"
_SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule required;"


@dataclass(frozen=True, slots=True)
class Security:
    """A broker's certificates and super users.

    Attributes:
        identity: PEM file with the broker's certificate, which must name 127.0.0.1 and be for servers and clients, the
            certificates up to the authority if there are any in between, and the private key, in PKCS#8.
        authority: PEM file with the certificates of trusted authorities.
        super_users: users without limits; the common name of the broker's certificate must be one of them.
    """

    identity: Path
    authority: Path
    super_users: tuple[str, ...]

    def client_settings(self) -> dict[str, Any]:
        """Librdkafka properties of a client that is the broker itself."""
        return {
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.authority),
            "ssl.certificate.location": str(self.identity),
            "ssl.key.location": str(self.identity),
        }

    def properties(self) -> dict[str, str]:
        """The broker's properties, but for the listeners."""
        return {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": ";".join(f"User:{name}" for name in self.super_users),
            "allow.everyone.if.no.acl.found": "false",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.identity.absolute()),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority.absolute()),
            "ssl.principal.mapping.rules": _COMMON_NAME,
            "listener.name.ssl.ssl.client.auth": "required",
            "listener.name.controller.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": MECHANISM,
            f"listener.name.sasl_ssl.{MECHANISM.lower()}.sasl.jaas.config": _SCRAM_MODULE,
        }


def secured_listeners(port: int, certificate_port: int, controller_port: int) -> Mapping[str, str]:
    """The properties of the listeners, all on 127.0.0.1."""
    clients = f"SASL_SSL://127.0.0.1:{port},SSL://127.0.0.1:{certificate_port}"
    return {
        "listeners": f"{clients},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": clients,
        "listener.security.protocol.map": "SASL_SSL:SASL_SSL,SSL:SSL,CONTROLLER:SSL",
        "inter.broker.listener.name": "SSL",
    }
