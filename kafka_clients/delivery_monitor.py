"""Partitions without a leader in a producer, and with one in the cluster.

A broker that does not lead a partition any more answers a producer with the new leader, or with -1 while there is none.
After that librdkafka may keep the partition without a leader for good
(https://github.com/confluentinc/librdkafka/issues/5430): records for it wait until they time out, or for ever, and no
error is reported. Only the statistics of the client show it.

While brokers are away, a partition may really have no leader, and its records have to wait. So a partition counts as
stuck only if its leader answers another client, several times, and the producer still sends nothing.
"""

import json
import threading
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from kafka_clients.client_settings import for_any, new_client
from kafka_clients.librdkafka_bugs import within
from kafka_clients.log_reader import Place
from kafka_clients.repeated_lines import get_logger
from tuple_tree.names import CATALOGUE_GROUP

logger = get_logger(__name__)

_STATISTICS_MS: Final = 5_000
_SURE: Final = 4
"""Answers of the leader in a row: a client that works has refreshed its metadata, every 10 s, before the last."""
_ANSWER_SECONDS: Final = 3.0
_ALL_ANSWERS_SECONDS: Final = 10.0
_HANG_SECONDS: Final = 20.0
_CALLBACKS: Final = ("error_cb", "stats_cb", "statistics.interval.ms", "on_delivery", "throttle_cb")
_READY: Final = "Assigned"  # of an idempotent producer: it has its producer id, without which it sends nothing

Leaders = Callable[[Collection[Place]], Mapping[Place, int]]
"""The leaders of partitions, by broker id, as far as they have one that answers."""


@dataclass(eq=False, slots=True)
class _Waiting:
    """Records of a partition that wait, and how many were sent before."""

    sent: int
    statistics: int = 0  # in a row, since the first in which they waited
    answers: int = 0  # of the leader, in a row


class DeliveryMonitor:
    """Whether a producer, which has to be polled, keeps the records of a partition whose leader answers others.

    Attributes:
        stuck: the error that ends the producer; None while it works.
    """

    def __init__(self, settings: Mapping[str, Any], leaders: Leaders | None = None) -> None:
        self.stuck: KafkaError | None = None
        self._leaders = leaders or (lambda places: answering_leaders(settings, places))
        self._waiting: dict[Place, _Waiting] = {}
        self._asked: dict[Place, _Waiting] = {}
        self._answer: Mapping[Place, int] | None = None

    @property
    def settings(self) -> dict[str, Any]:
        return {"statistics.interval.ms": _STATISTICS_MS, "stats_cb": self.on_stats}

    def on_stats(self, statistics: str) -> None:
        values = json.loads(statistics)
        is_ready = values.get("eos", {}).get("idemp_state") == _READY
        self._waiting = self._without_progress(values.get("topics", {})) if is_ready else {}
        self._count_answers()
        held = {place: waiting for place, waiting in self._waiting.items() if waiting.statistics}
        if held and not self._asked:
            self._asked = held
            threading.Thread(target=self._ask, args=(tuple(held),), name="leaders", daemon=True).start()

    def _without_progress(self, topics: Mapping[str, Any]) -> dict[Place, _Waiting]:
        found = {}
        for topic in topics.values():
            for partition in topic["partitions"].values():
                # Records that are in flight, or between two attempts, are in neither queue.
                waits = (partition["msgq_cnt"] or partition["xmit_msgq_cnt"]) and not partition["msgs_inflight"]
                if not waits or partition["partition"] < 0:
                    continue
                place = (topic["topic"], partition["partition"])
                known = self._waiting.get(place)
                if known is not None and known.sent == partition["txmsgs"]:
                    known.statistics += 1
                else:
                    known = _Waiting(partition["txmsgs"])
                found[place] = known
        return found

    def _count_answers(self) -> None:
        answer = self._answer
        if answer is None:
            return
        for place, asked in self._asked.items():
            leader = answer.get(place)
            asked.answers = 0 if leader is None else asked.answers + 1
            if asked.answers >= _SURE and self._waiting.get(place) is asked:
                self.stuck = _error(place, leader, asked.statistics * _STATISTICS_MS / 1000)
        self._answer, self._asked = None, {}

    def _ask(self, places: Collection[Place]) -> None:
        try:
            self._answer = self._leaders(places)
        except Exception as error:  # noqa: BLE001 - without an answer the producer waits
            logger.warning("the leaders of %s are not known: %r", places, error)
            self._answer = {}


def _error(place: Place, leader: int | None, seconds: float) -> KafkaError:
    topic, partition = place
    return KafkaError(
        KafkaError._FATAL,
        f"no record for {topic}[{partition}] was sent for {seconds:.0f} s although its leader, broker {leader}, "
        "answers: librdkafka has lost the leader of this partition "
        "(https://github.com/confluentinc/librdkafka/issues/5430). A restart continues from what is committed",
        fatal=True,
    )


def answering_leaders(settings: Mapping[str, Any], places: Collection[Place]) -> dict[Place, int]:
    """Asks brokers for leaders, and each leader for an offset, with a client of its own.

    `settings` are those of a producer.

    Raises:
        TimeoutError: if the client hangs, which is left to a thread.
    """
    found: dict[Place, int] = {}
    own = {name: value for name, value in for_any(settings).items() if name not in _CALLBACKS}

    def ask() -> None:
        deadline = time.monotonic() + _ALL_ANSWERS_SECONDS
        with closing(new_client(Consumer, {**own, "log_level": 0, "group.id": CATALOGUE_GROUP})) as client:
            for place in places:
                if (left := deadline - time.monotonic()) <= 0:
                    return
                leader = _answering_leader(client, place, min(left, _ANSWER_SECONDS))
                if leader is not None:
                    found[place] = leader

    within(_HANG_SECONDS, ask)
    return found


def _answering_leader(client: Consumer, place: Place, seconds: float) -> int | None:
    try:
        found = client.list_topics(place[0], timeout=seconds).topics[place[0]].partitions.get(place[1])
        leader = -1 if found is None else int(found.leader)
        if leader < 0:
            return None
        client.get_watermark_offsets(TopicPartition(*place), timeout=seconds, cached=False)
    except KafkaException:
        return None
    return leader
