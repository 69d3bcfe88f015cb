"""A topology whose messages are answered, in processes of its own."""

import os
from pathlib import Path

from spout_sdk import (
    BasicBolt,
    BasicCollector,
    FailTupleError,
    KafkaSpout,
    RetryPolicy,
    Topology,
    TopologyBuilder,
    Tuple,
)
from tests.kafka.sdk_topologies import NAME
from tests.waiting import eventually
from tuple_tree.manifest import Guarantee

DIRECTORY = "CLIENT_TEST_DIRECTORY"


class Upper(BasicBolt):
    """Answers with the message in upper case, and its own process.

    `held` is answered, and then held until a file exists, in a directory where each process leaves a file before it; so
    is `silent`, without an answer. `bad` fails.
    """

    answers = True

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        text = tuple_["value"]
        if text == "bad":
            raise FailTupleError("it is bad")
        if text != "silent":
            collector.answer([text.upper(), os.getpid()])
        if text in ("held", "silent"):
            directory = Path(os.environ[DIRECTORY])
            (directory / f"{text}-{os.getpid()}").touch()
            eventually((directory / f"release-{text}").exists, f"the release of {text}")


def _built(guarantee: Guarantee) -> Topology:
    builder = TopologyBuilder(os.environ[NAME], guarantee=guarantee, ack_partitions=3)
    topic = f"{os.environ[NAME]}-orders"
    retry = RetryPolicy(initial_delay=0, delay_period=0, max_retries=1)
    builder.set_spout("orders", KafkaSpout(topic, retry=retry), outcomes=f"{topic}.outcomes")
    builder.set_bolt("upper", Upper).shuffle_grouping("orders")
    return builder.build()


class Keep(BasicBolt):
    """Answers nothing."""

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        """Does nothing."""


def completed() -> Topology:
    builder = TopologyBuilder(os.environ[NAME], ack_partitions=1)
    topic = f"{os.environ[NAME]}-orders"
    builder.set_spout("orders", KafkaSpout(topic), outcomes=f"{topic}.outcomes", outcomes_codec="avro")
    builder.set_bolt("keep", Keep).shuffle_grouping("orders")
    return builder.build()


def answered() -> Topology:
    return _built("at_least_once")


def answered_once() -> Topology:
    return _built("exactly_once")
