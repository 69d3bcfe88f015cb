"""librdkafka's security settings for Spark's Java client."""

from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from kafka_clients.access import component_role
from spark_jobs import SparkJobError
from spark_jobs.kafka_options import security_options, source_options
from spark_jobs.spouts import replay_topic
from tests.certificates import Authority, Identity
from tests.manifests import manifest, spout

SCRAM = {
    "security.protocol": "sasl_ssl",
    "sasl.mechanisms": "scram-sha-512",
    "sasl.username": "alice",
    "sasl.password": 'a "quoted" \\ one',
}


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def identity(authority: Authority) -> Identity:
    return authority.issue("alice")


def tls(authority: Authority, identity: Identity, **more: Any) -> dict[str, Any]:
    return {
        "security.protocol": "ssl",
        "ssl.ca.location": str(authority.path),
        "ssl.certificate.location": str(identity.certificate),
        "ssl.key.location": str(identity.key),
        **more,
    }


def test_a_password_becomes_a_login_module() -> None:
    assert security_options(SCRAM) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required "
            r'username="alice" password="a \"quoted\" \\ one";'
        ),
    }
    options = security_options({**SCRAM, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanisms": "PLAIN"})
    assert "plain.PlainLoginModule required" in options["sasl.jaas.config"]
    # The end of a line does not end a password.
    assert r'password="a\nb\rc"' in security_options({**SCRAM, "sasl.password": "a\nb\rc"})["sasl.jaas.config"]


def test_files_are_sent_to_executors_as_text(authority: Authority, identity: Identity) -> None:
    options = security_options(tls(authority, identity))
    assert options == {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": authority.path.read_text().strip(),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": identity.certificate.read_text().strip(),
        "ssl.keystore.key": identity.key.read_text().strip(),
    }

    # One file may hold the certificate and its key.
    both = {"ssl.certificate.location": str(identity.both), "ssl.key.location": str(identity.both)}
    assert security_options(tls(authority, identity, **both)) == security_options(tls(authority, identity))

    # Text is taken as it is.
    text = {
        "security.protocol": "SSL",
        "ssl.ca.pem": authority.path.read_text(),
        "ssl.certificate.pem": identity.certificate.read_text(),
        "ssl.key.pem": identity.key.read_text(),
    }
    assert security_options(text) == security_options(tls(authority, identity))


def test_only_an_encrypted_key_has_a_password(authority: Authority, identity: Identity) -> None:
    encrypted = authority.issue("bob", password="hush")
    options = security_options(tls(authority, encrypted, **{"ssl.key.password": "hush"}))
    assert options["ssl.key.password"] == "hush"
    assert "ssl.key.password" not in security_options(tls(authority, identity, **{"ssl.key.password": "hush"}))
    with pytest.raises(SparkJobError, match=r"set ssl\.key\.password"):
        security_options(tls(authority, encrypted))


@pytest.mark.parametrize(
    ("kafka", "java"),
    [
        (
            {"security.protocol": "SSL", "ssl.keystore.location": "/keys.p12", "ssl.keystore.password": "hush"},
            {
                "security.protocol": "SSL",
                "ssl.keystore.location": "/keys.p12",
                "ssl.keystore.password": "hush",
                "ssl.keystore.type": "PKCS12",
            },
        ),
        (
            {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "none"},
            {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": ""},
        ),
        ({"sasl.username": "alice"}, {}),
        ({**SCRAM, "security.protocol": "plaintext"}, {"security.protocol": "PLAINTEXT"}),
        ({"security.protocol": "SSL", "ssl.ca.location": "probe"}, {"security.protocol": "SSL"}),
    ],
)
def test_other_settings_and_settings_that_the_protocol_ignores(kafka: dict[str, Any], java: dict[str, str]) -> None:
    assert security_options(kafka) == java


def test_options_of_the_source_have_them() -> None:
    options = source_options({"bootstrap.servers": "k:1", **SCRAM})
    assert options["kafka.security.protocol"] == "SASL_SSL"
    assert 'password="a ' in options["kafka.sasl.jaas.config"]
    assert not any("sasl.password" in name or "sasl.mechanisms" in name for name in options)


TLS = {"security.protocol": "SSL"}


@pytest.mark.parametrize(
    ("kafka", "message"),
    [
        ({**SCRAM, "sasl.mechanisms": "GSSAPI"}, r"sasl.mechanism GSSAPI cannot be used in Spark: use one of PLAIN"),
        ({"security.protocol": "SASL_SSL"}, r"sasl.mechanism GSSAPI cannot be used"),
        ({**SCRAM, "sasl.password": ""}, r"needs sasl.password: set ACKER_KAFKA__SASL_PASSWORD"),
        ({**TLS, "enable.ssl.certificate.verification": "false"}, r"name the broker's authority with ssl.ca.location"),
        ({**TLS, "ssl.crl.location": "/crl.pem"}, r"ssl.crl.location cannot be translated for Spark"),
        ({**TLS, "ssl.cipher.suites": "ALL"}, r"ssl.cipher.suites cannot be translated"),
        ({**TLS, "ssl.ca.location": "/"}, r"ssl.ca.location / is a directory.*name a file"),
        ({**TLS, "ssl.ca.location": "/no/such.pem"}, r"/no/such.pem cannot be read \(No such file.*Spark's driver"),
        ({**TLS, "ssl.ca.pem": "hush"}, r"ssl.ca has no certificate in PEM"),
        ({**TLS, "ssl.key.pem": "hush"}, r"belong together: set ssl.certificate.location or ssl.certificate.pem too"),
        ({**TLS, "ssl.certificate.pem": "x", "ssl.key.pem": "hush"}, r"ssl.key has no private key in PEM"),
    ],
)
def test_untranslatable_settings_are_rejected(kafka: dict[str, Any], message: str) -> None:
    with pytest.raises(SparkJobError, match=message) as refused:
        security_options(kafka)
    assert "hush" not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_error_about_an_unsupported_key_has_the_conversion(authority: Authority, identity: Identity) -> None:
    key = load_pem_private_key(identity.key.read_bytes(), None)
    old = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    identity.key.write_bytes(old)
    with pytest.raises(SparkJobError, match=r"is a EC PRIVATE KEY.*openssl pkcs8 -topk8 -in OLD -out NEW") as refused:
        security_options(tls(authority, identity))
    assert old.decode().splitlines()[1] not in str(refused.value)


def test_the_role_of_a_spout_lands_its_rows_where_the_job_does() -> None:
    of_files = manifest(spout("files", external=True), topology="t")
    assert replay_topic("t", "files") in component_role(of_files, "files").needed_topics
