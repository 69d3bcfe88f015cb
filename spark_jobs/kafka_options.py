"""Kafka settings, librdkafka's properties as everywhere in this project, for Spark's Java client; checks of topics.

Most names are the same in both. Properties that Java spells differently are translated, and those of librdkafka alone
are left out. A property of TLS or SASL that Java does not have, or has otherwise, is refused: a setting that was
silently left out might be the one that a user relies on. Files are read here, on the driver, and passed as text, so
that executors need none of them.
"""

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from confluent_kafka import KafkaException

from kafka_clients.access import Operation, Role, remedy, shortfall
from kafka_clients.catalogue import Catalogue
from kafka_clients.client_settings import consumers
from kafka_clients.errors import AccessError, BrokerError
from spark_jobs.errors import SparkJobError, TopicsRefusedError

_RENAMED: Final = {"metadata.broker.list": "bootstrap.servers", "fetch.wait.max.ms": "fetch.max.wait.ms"}
_LIBRDKAFKA_ONLY: Final = (
    "log",
    "debug",
    "statistics.",
    "topic.metadata.",
    "queued.",
    "queue.buffering.",
    "fetch.queue.",
    "socket.timeout.ms",
    "socket.keepalive",
    "enable.gapless.",
    "message.timeout.ms",
    "message.send.max.retries",
    "error_cb",
)
# Spark sets these itself, and refuses them.
_SPARKS_OWN: Final = ("auto.offset.reset", "enable.auto.", "group.id", "partition.assignment.", "interceptor.classes")
# A fetch is asked for when the last one is used up: large ones halve the time that reading takes.
# Aborted records must not be processed; by default Java reads them, and librdkafka does not.
# A consumer fetches ahead, at the end of the log too. Spark then asks it for offsets, and a broker answers the requests
# of a connection in turn: each task would wait for the 500 ms that a fetch without records takes unless set.
_CONSUMER: Final = {
    "max.partition.fetch.bytes": str(8 * 1024 * 1024),
    "fetch.max.wait.ms": "20",
    "isolation.level": "read_committed",
}
_FILES: Final = ("ssl.ca", "ssl.certificate", "ssl.key")

_SECURITY: Final = ("security.", "sasl.", "ssl.", "enable.ssl.", "enable.sasl.")

_MODULES: Final = {
    "PLAIN": "plain.PlainLoginModule",
    "SCRAM-SHA-256": "scram.ScramLoginModule",
    "SCRAM-SHA-512": "scram.ScramLoginModule",
}
_REFUSED: Final = {
    "ssl.cipher.suites": "Java has other names for cipher suites: leave it out, and restrict them on the brokers",
    "ssl.curves.list": "leave it out, and restrict curves on the brokers",
    "ssl.sigalgs.list": "leave it out, and restrict signatures on the brokers",
    "ssl.crl.location": "leave it out, and take a revoked certificate's ACLs away",
    "ssl.ca.certificate.stores": "name a PEM file with ssl.ca.location",
    "ssl.engine.location": "name a PEM file with ssl.key.location",
    "ssl.providers": "leave it out",
}
_BLOCK: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----.*?-----END \1-----", re.DOTALL)
_KEY: Final = "PRIVATE KEY"
_ENCRYPTED_KEY: Final = "ENCRYPTED PRIVATE KEY"
_OFF: Final = ("false", "0", "f", "no", "n")

_CONTACT_SECONDS: Final = 10.0
_KNOWN_SECONDS: Final = 5.0
"""How long a broker may not know a topic that was just created."""
_LOOK_SECONDS: Final = 0.1


def source_options(kafka: Mapping[str, Any]) -> dict[str, str]:
    """Options of Spark's Kafka source."""
    return _options({**_CONSUMER, **consumers(_checked(kafka))})


def executor_settings(kafka: Mapping[str, Any]) -> dict[str, Any]:
    """Librdkafka's settings with the contents of PEM files, which executors need not have."""
    settings = dict(kafka)
    for name in _FILES:
        path = Path(str(settings.get(f"{name}.location", "")))
        if f"{name}.location" in settings and path.is_file():
            del settings[f"{name}.location"]
            settings.setdefault(f"{name}.pem", path.read_text())
    return settings


@contextmanager
def catalogue_of(kafka: Mapping[str, Any]) -> Iterator[Catalogue]:
    """The cluster, whose errors within the block become ours."""
    try:
        catalogue = Catalogue(_checked(kafka), _CONTACT_SECONDS, first_s=_CONTACT_SECONDS)
    except KafkaException as error:
        raise SparkJobError(f"the Kafka settings cannot be used: {error.args[0].str()}; correct them") from error
    try:
        yield catalogue
    except BrokerError as error:
        raise TopicsRefusedError(str(error)) from error


def check_topics(kafka: Mapping[str, Any], partitions: Mapping[str, int]) -> None:
    """Checks that topics exist with these numbers of partitions."""
    with catalogue_of(kafka) as catalogue:
        existing = catalogue.topics()
        allowed = catalogue.allowed(topic for topic in partitions if topic not in existing)
    for topic, wanted in partitions.items():
        if topic not in existing:
            if hidden := shortfall((), allowed[topic]):
                raise TopicsRefusedError(f"topic {topic} {hidden}: {remedy()}")
            raise TopicsRefusedError(f"topic {topic} does not exist: acker topics create MODULE:TOPOLOGY makes it")
        if existing[topic] != wanted:
            raise TopicsRefusedError(
                f"topic {topic} has {existing[topic]} partitions and the topology has {wanted}: give both the same "
                "number, or the topology another name"
            )


def topic_id(kafka: Mapping[str, Any], topic: str) -> str:
    """The id of a source topic, which tells it from others of its name."""
    end = time.monotonic() + _KNOWN_SECONDS
    with catalogue_of(kafka) as catalogue:
        try:
            while (found := catalogue.topic_id(topic)) is None:
                if time.monotonic() >= end:
                    raise TopicsRefusedError(f"source topic {topic} does not exist: create it, or name another")
                time.sleep(_LOOK_SECONDS)
        except AccessError as error:
            raise TopicsRefusedError(f"source topic {topic} may not be read by this user: {error}") from error
    return found


def check_access(kafka: Mapping[str, Any], role: Role) -> None:
    """Checks that this user may read and write what its role has to; topics that do not exist are skipped."""
    # Whether a topic is needed that would have to be created, only the job knows.
    permissions = tuple(each for each in role.permissions if Operation.CREATE not in each.operations)
    with catalogue_of(kafka) as catalogue:
        catalogue.check_access(replace(role, permissions=permissions))


def _checked(kafka: Mapping[str, Any]) -> Mapping[str, Any]:
    if not kafka.get("bootstrap.servers"):
        raise SparkJobError(
            "the Kafka settings have no bootstrap.servers: pass it, or set ACKER_KAFKA__BOOTSTRAP_SERVERS"
        )
    return kafka


def _options(kafka: Mapping[str, Any]) -> dict[str, str]:
    options = dict(security_options(kafka))
    for name, value in kafka.items():
        if not name.startswith((*_LIBRDKAFKA_ONLY, *_SPARKS_OWN, *_SECURITY)):
            options[_RENAMED.get(name, name)] = str(value).lower() if isinstance(value, bool) else str(value)
    return {f"kafka.{name}": value for name, value in options.items()}


def security_options(kafka: Mapping[str, Any]) -> dict[str, str]:
    """The Java client's properties that stand for librdkafka's."""
    if "security.protocol" not in kafka:
        return {}
    protocol = str(kafka["security.protocol"]).upper()
    options = {"security.protocol": protocol}
    if protocol.startswith("SASL_"):
        options |= _sasl(kafka)
    if protocol.endswith("SSL"):
        options |= _trust(kafka) | _identity(kafka)
    return options


def _sasl(kafka: Mapping[str, Any]) -> dict[str, str]:
    mechanism = str(kafka.get("sasl.mechanism", kafka.get("sasl.mechanisms", "GSSAPI"))).upper()
    if mechanism not in _MODULES:
        raise SparkJobError(
            f"sasl.mechanism {mechanism} cannot be used in Spark: use one of {', '.join(_MODULES)}, or a certificate "
            "(security.protocol=SSL)"
        )
    login = ""
    for name in ("username", "password"):
        if not kafka.get(f"sasl.{name}"):
            raise SparkJobError(f"sasl.mechanism {mechanism} needs sasl.{name}: set ACKER_KAFKA__SASL_{name.upper()}")
        # As Java's tokenizer reads a quoted string, which ends one at the end of a line.
        value = str(kafka[f"sasl.{name}"]).replace("\\", "\\\\").replace('"', '\\"')
        login += f' {name}="{value}"'.replace("\n", "\\n").replace("\r", "\\r")
    module = f"org.apache.kafka.common.security.{_MODULES[mechanism]}"
    return {"sasl.mechanism": mechanism, "sasl.jaas.config": f"{module} required{login};"}


def _trust(kafka: Mapping[str, Any]) -> dict[str, str]:
    for name, instead in _REFUSED.items():
        if name in kafka:
            raise SparkJobError(f"{name} cannot be translated for Spark: {instead}")
    if str(kafka.get("enable.ssl.certificate.verification", True)).lower() in _OFF:
        raise SparkJobError(
            "enable.ssl.certificate.verification=false cannot be translated for Spark, which always verifies: name "
            "the broker's authority with ssl.ca.location"
        )
    options: dict[str, str] = {}
    algorithm = kafka.get("ssl.endpoint.identification.algorithm")
    if algorithm is not None:
        options["ssl.endpoint.identification.algorithm"] = "" if str(algorithm).lower() == "none" else str(algorithm)
    if kafka.get("ssl.ca.location") == "probe":
        return options
    text = _text(kafka, "ssl.ca")
    if text is not None:
        options |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": _certificates(text, "ssl.ca")}
    return options


def _identity(kafka: Mapping[str, Any]) -> dict[str, str]:
    if "ssl.keystore.location" in kafka:
        # PKCS#12 for librdkafka as well; the one file that executors have to have at the same place.
        options = {"ssl.keystore.type": "PKCS12", "ssl.keystore.location": str(kafka["ssl.keystore.location"])}
        if "ssl.keystore.password" in kafka:
            options["ssl.keystore.password"] = str(kafka["ssl.keystore.password"])
        return options
    certificate, key = _text(kafka, "ssl.certificate"), _text(kafka, "ssl.key")
    if certificate is None and key is None:
        return {}
    if certificate is None or key is None:
        lacking = "ssl.certificate" if certificate is None else "ssl.key"
        raise SparkJobError(f"a certificate and its key belong together: set {lacking}.location or {lacking}.pem too")
    block, is_encrypted = _key(key)
    options = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": _certificates(certificate, "ssl.certificate"),
        "ssl.keystore.key": block,
    }
    if is_encrypted:
        if not kafka.get("ssl.key.password"):
            raise SparkJobError("the key of ssl.key is encrypted: set ssl.key.password (ACKER_KAFKA__SSL_KEY_PASSWORD)")
        # Java would take a key that is not encrypted for one that is, were it given a password.
        options["ssl.key.password"] = str(kafka["ssl.key.password"])
    return options


def _text(kafka: Mapping[str, Any], name: str) -> str | None:
    """The value of `name.pem`, or the contents of the file that `name.location` names."""
    if kafka.get(f"{name}.pem"):
        return str(kafka[f"{name}.pem"])
    location = kafka.get(f"{name}.location")
    if not location:
        return None
    path = Path(str(location))
    if path.is_dir():
        raise SparkJobError(f"{name}.location {path} is a directory, which cannot be translated for Spark: name a file")
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not PEM"
        raise SparkJobError(
            f"{name}.location {path} cannot be read ({why}): it must be a PEM file on the machine of Spark's driver"
        ) from error


def _certificates(text: str, name: str) -> str:
    blocks = [block[0] for block in _BLOCK.finditer(text) if block[1] == "CERTIFICATE"]
    if not blocks:
        raise SparkJobError(f"{name} has no certificate in PEM, which begins with -----BEGIN CERTIFICATE-----")
    return "\n".join(blocks)


def _key(text: str) -> tuple[str, bool]:
    """The private key, and whether it is encrypted."""
    keys = [block for block in _BLOCK.finditer(text) if block[1].endswith(_KEY)]
    if not keys:
        raise SparkJobError(f"ssl.key has no private key in PEM, which begins with -----BEGIN {_KEY}-----")
    kind = keys[0][1]
    if kind not in (_KEY, _ENCRYPTED_KEY):
        raise SparkJobError(
            f"the key of ssl.key is a {kind}, and Java takes PKCS#8 alone: openssl pkcs8 -topk8 -in OLD -out NEW "
            "converts it, and asks for a password; with -nocrypt it does not"
        )
    return keys[0][0], kind == _ENCRYPTED_KEY
