"""Requests to a cluster, and the errors of unanswered and refused ones."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from kafka_clients.access import remedy
from kafka_clients.client_settings import for_admin
from kafka_clients.errors import AccessError, BrokerUnreachableError
from kafka_clients.forgotten_clients import forgettable

QUIET: Final = {"log_level": 0, "socket.connection.setup.timeout.ms": 5_000}
"""librdkafka properties of a client whose errors are raised by us."""
REFUSED: Final = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
)
"""Codes of the errors that mean that the user has no ACL for it."""
GONE: Final = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION)
"""Codes of the errors that mean that the topic or partition does not exist."""
FIRST_S: Final = 3.0  # how long the brokers may take to answer for the first time, in seconds: a person waits
_KEPT_OUT: Final = (KafkaError._AUTHENTICATION, KafkaError._SSL)
_CONNECTING: Final = (KafkaError._TRANSPORT, KafkaError._RESOLVE)
_SINCE: Final = re.compile(r" \(after \d+ms in state .*")


class Contact:
    """Raises our errors where a cluster does not answer; it may take `first_s` seconds to answer for the first time."""

    def __init__(self, kafka: Mapping[str, Any], first_s: float = FIRST_S) -> None:
        self._first_s = first_s
        self._servers = kafka.get("bootstrap.servers", "nowhere: bootstrap.servers is not set")
        self._errors: list[KafkaError] = []
        settings: dict[str, Any] = {**for_admin({**QUIET, **kafka}), "error_cb": self._errors.append}
        self.admin = forgettable(AdminClient)(settings)
        self._reached = False

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Turns errors of requests in its body into `AccessError` and `BrokerUnreachableError`.

        The first time it makes sure that there is a broker.
        """
        # Earlier errors do not count: brokers that restart cause all kinds of them.
        self.admin.poll(0)
        self._errors.clear()
        try:
            if not self._reached:
                # A future, because Ctrl-C does not interrupt calls that wait within librdkafka.
                self.admin.describe_cluster(request_timeout=self._first_s).result()
                self._reached = True
            yield
        except KafkaException as error:
            if error.args[0].code() in REFUSED:
                raise AccessError(f"{error.args[0].str()}: {remedy()}") from error
            self.admin.poll(0)
            for each in self._errors:
                if each.code() in _KEPT_OUT:
                    raise AccessError(
                        f"authentication or TLS handshake with {self._servers} failed ({each.str()}): check "
                        "security.protocol and the sasl. and ssl. settings, which acker config show lists"
                    ) from error
            why = next((each for each in self._errors if each.code() in _CONNECTING), error.args[0])
            raise BrokerUnreachableError(
                f"no broker answers at {self._servers} ({_SINCE.sub('', why.str())}). "
                "Start one, or set --bootstrap-servers or ACKER_KAFKA__BOOTSTRAP_SERVERS to where it is"
            ) from error
