"""Brokers in this process that give clients false metadata: librdkafka's mock cluster, of the library it is part of."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import confluent_kafka


class MockCluster:
    """Three brokers with a topic of one partition, which broker 1 leads."""

    def __init__(self, library: ctypes.CDLL, cluster: ctypes.c_void_p, topic: str) -> None:
        self._library, self._cluster, self._topic = library, cluster, topic.encode()
        library.rd_kafka_mock_topic_create(cluster, self._topic, 1, 3)
        library.rd_kafka_mock_partition_set_leader(cluster, self._topic, 0, ctypes.c_int32(1))
        library.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
        self.bootstrap: str = library.rd_kafka_mock_cluster_bootstraps(cluster).decode()

    def answer_next_metadata(self, leader: int, epoch: int) -> None:
        """Gives the next client that asks for metadata another leader of the partition, -1 for none.

        After that a client ignores metadata of a lower leader epoch, which all others have.
        """
        self._library.rd_kafka_mock_partition_push_leader_response(
            self._cluster, self._topic, 0, ctypes.c_int32(leader), ctypes.c_int32(epoch)
        )


@contextmanager
def mock_cluster(topic: str) -> Iterator[MockCluster]:
    library = ctypes.CDLL(_librdkafka())
    for name in ("rd_kafka_conf_new", "rd_kafka_new", "rd_kafka_mock_cluster_new"):
        getattr(library, name).restype = ctypes.c_void_p
    conf = ctypes.c_void_p(library.rd_kafka_conf_new())
    error = ctypes.create_string_buffer(200)
    library.rd_kafka_conf_set(conf, b"log_level", b"0", error, ctypes.c_size_t(200))
    owner = ctypes.c_void_p(library.rd_kafka_new(0, conf, error, ctypes.c_size_t(200)))
    cluster = ctypes.c_void_p(library.rd_kafka_mock_cluster_new(owner, 3))
    try:
        yield MockCluster(library, cluster, topic)
    finally:
        library.rd_kafka_mock_cluster_destroy(cluster)
        library.rd_kafka_destroy(owner)


def _librdkafka() -> str:
    assert confluent_kafka.libversion()  # it is loaded
    lines = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    return next(line.split()[-1] for line in lines if "librdkafka" in line)
