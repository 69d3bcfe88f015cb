"""A real single-node Apache Kafka for development: the embedded default, without Docker.

The jars come once from Maven Central (`maven`; `distribution` has the cache, and what speeds up a start), and run on
the Java of the machine (`java`). `broker` has the public `LocalKafka`. Its parts: `properties`
(with ports, TLS, SASL, ACLs); `process` (with files and their lock); `guardian`, which ends the broker when the process
that started it has ended. `errors`: the hierarchy.

Environment variables:
    ACKER_LOCAL_KAFKA__CACHE: where the jars are kept instead of `~/.cache/kafka-acker`.
    ACKER_LOCAL_KAFKA__REPOSITORY: the address of another Maven repository than Maven Central, such as a mirror.
    JAVA_HOME: the Java to use before the one on `PATH`.
"""

from local_kafka.broker import LocalKafka
from local_kafka.errors import (
    BrokerStartError,
    DataDirInUseError,
    DownloadError,
    JavaNotFoundError,
    JavaTooOldError,
    LocalKafkaError,
)
from local_kafka.properties import Security

__all__ = [
    "BrokerStartError",
    "DataDirInUseError",
    "DownloadError",
    "JavaNotFoundError",
    "JavaTooOldError",
    "LocalKafka",
    "LocalKafkaError",
    "Security",
]
