"""Which Kafka the tests run on."""

import pytest

from tests.broker import BrokerChoiceError, Choice, Kind, choose

SERVERS = {"ACKER_KAFKA__BOOTSTRAP_SERVERS": "k:9092"}


def chosen(environment: dict[str, str], problem: str = "") -> Choice:
    return choose(environment, lambda: problem)


def test_a_given_cluster_comes_before_a_container_and_that_before_the_embedded_broker() -> None:
    assert chosen(SERVERS) == Choice(Kind.EXTERNAL, "at k:9092 by ACKER_KAFKA__BOOTSTRAP_SERVERS", "k:9092")
    assert chosen({}) == Choice(Kind.CONTAINER, "a Docker engine runs")
    assert chosen({}, "no Docker engine answers") == Choice(Kind.EMBEDDED, "no Docker engine answers")


@pytest.mark.parametrize("problem", ["", "no Docker engine answers"])
def test_a_variable_forces_one(problem: str) -> None:
    assert chosen({"ACKER_TEST_KAFKA": "embedded"}, problem).kind is Kind.EMBEDDED
    assert chosen({"ACKER_TEST_KAFKA": "external", **SERVERS}, problem).servers == "k:9092"
    assert chosen({"ACKER_TEST_KAFKA": "container"}).kind is Kind.CONTAINER


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"ACKER_TEST_KAFKA": "container"}, "ACKER_TEST_KAFKA=container, but no engine"),
        ({"ACKER_TEST_KAFKA": "external"}, "set ACKER_KAFKA__BOOTSTRAP_SERVERS"),
        ({"ACKER_TEST_KAFKA": "embedded", **SERVERS}, "names another cluster: unset it"),
        ({"ACKER_TEST_KAFKA": "docker"}, "it is one of external, container, embedded"),
    ],
)
def test_what_cannot_be_had_is_an_error_and_never_another_broker(environment: dict[str, str], said: str) -> None:
    with pytest.raises(BrokerChoiceError, match=said):
        chosen(environment, "no engine")
