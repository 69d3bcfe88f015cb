"""The topology of `examples.clicks` under the name that the environment has, with topics of its own."""

import os
from typing import Final

from examples.clicks import build
from spout_sdk import Topology
from tests.kafka.sdk_topologies import NAME

MODULE: Final = "tests.kafka.clicks_topology"


def source_of(name: str) -> str:
    return f"{name}-lines"


def results_of(name: str) -> str:
    return f"{name}-minutes"


def clicks() -> Topology:
    name = os.environ[NAME]
    return build(name, source_of(name), results_of(name))


def clicks_exactly_once() -> Topology:
    name = os.environ[NAME]
    return build(name, source_of(name), results_of(name), guarantee="exactly_once")
