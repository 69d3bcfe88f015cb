"""Which Kafka the tests run on: a cluster that is given, a container, or the embedded broker, in this order.

`ACKER_TEST_KAFKA` picks one, and then there is no other: what cannot be had is an error, and no test is left out.
Tests that stop, configure or secure a broker have a `LocalKafka` of their own, whatever this says.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from local_kafka import LocalKafka

KIND_VARIABLE: Final = "ACKER_TEST_KAFKA"
SERVERS_VARIABLE: Final = "ACKER_KAFKA__BOOTSTRAP_SERVERS"


class Kind(StrEnum):
    EXTERNAL = "external"
    """The cluster that `ACKER_KAFKA__BOOTSTRAP_SERVERS` names."""
    CONTAINER = "container"
    """`apache/kafka` in Docker."""
    EMBEDDED = "embedded"
    """`LocalKafka`."""


class BrokerChoiceError(Exception):
    """The variables cannot be followed; the message says what to do."""


@dataclass(frozen=True)
class Choice:
    """The Kafka to use.

    Attributes:
        kind: which one.
        why: why this one, for the report.
        servers: of an external cluster.
    """

    kind: Kind
    why: str
    servers: str = ""

    def __str__(self) -> str:
        return f"{self.kind}, {self.why}"


def forced(environment: Mapping[str, str]) -> Choice | None:
    """What the variables say; None if they leave it open.

    Raises:
        BrokerChoiceError: if they cannot be followed.
    """
    servers, said = environment.get(SERVERS_VARIABLE, ""), environment.get(KIND_VARIABLE, "")
    if not said:
        return Choice(Kind.EXTERNAL, f"at {servers} by {SERVERS_VARIABLE}", servers) if servers else None
    try:
        kind = Kind(said)
    except ValueError as error:
        raise BrokerChoiceError(f"{KIND_VARIABLE}={said}: it is one of {', '.join(Kind)}") from error
    if kind is Kind.EXTERNAL and not servers:
        raise BrokerChoiceError(f"{KIND_VARIABLE}={said}, but no cluster is named: set {SERVERS_VARIABLE}")
    if servers and kind is not Kind.EXTERNAL:
        raise BrokerChoiceError(f"{KIND_VARIABLE}={said}, but {SERVERS_VARIABLE} names another cluster: unset it")
    return Choice(kind, f"by {KIND_VARIABLE}", servers)


def choose(environment: Mapping[str, str], container_problem: Callable[[], str]) -> Choice:
    """The Kafka to use.

    Args:
        environment: variables.
        container_problem: says why there can be no container; empty if there can.

    Raises:
        BrokerChoiceError: if the variables cannot be followed.
    """
    choice = forced(environment)
    if choice is None:
        problem = container_problem()
        if problem:
            return Choice(Kind.EMBEDDED, problem)
        return Choice(Kind.CONTAINER, "a Docker engine runs")
    if choice.kind is Kind.CONTAINER and (problem := container_problem()):
        raise BrokerChoiceError(f"{KIND_VARIABLE}={choice.kind}, but {problem}")
    return choice


@contextmanager
def running(choice: Choice) -> Iterator[str]:
    """Runs it, and returns where it is."""
    match choice.kind:
        case Kind.EXTERNAL:
            yield choice.servers
        case Kind.CONTAINER:
            from tests.broker_container import kafka_container

            with kafka_container() as servers:
                yield servers
        case Kind.EMBEDDED:
            with LocalKafka() as kafka:
                yield kafka.bootstrap_servers
