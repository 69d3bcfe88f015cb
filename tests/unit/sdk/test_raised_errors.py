"""A user's code may raise anything: the tuple or the message of the call fails, and its process continues."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from spout_sdk import (
    FailTupleError,
    KafkaSpout,
    RetryPolicy,
    RetryTupleError,
    TaskContext,
    Topology,
    TopologyBuilder,
    declare,
)
from spout_sdk.api.topology import OnException
from spout_sdk.errors import InvalidMessageError
from spout_sdk.groupings import CustomGrouping
from spout_sdk.hooks import TaskHook
from spout_sdk.testing import SimulatedCluster
from tests.components import Emits, Kinds, Sink, kinds, source
from tuple_tree.manifest import Guarantee

WORD = (declare({"word": str}),)


@pytest.fixture(autouse=True)
def _without_records_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """pytest-xdist cannot send a captured traceback with half a surrogate pair."""
    caplog.set_level("CRITICAL", "spout_sdk")


class PanicException(BaseException):
    """A panic of Rust code."""


class UnreadableError(Exception):
    def __str__(self) -> str:
        raise PanicException("no text")


class InvalidError(InvalidMessageError):
    __str__ = UnreadableError.__str__


class WithoutTextError(FailTupleError):
    __str__ = UnreadableError.__str__


class WithoutDelayError(RetryTupleError):
    def __init__(self) -> None:
        """Does not call the constructor of its base."""


ERRORS: dict[str, Callable[[], BaseException]] = {
    "no text": UnreadableError,
    "panic": PanicException,
    "half a surrogate pair": lambda: ValueError("\ud83d"),
    "key": KeyError,
    "fails": WithoutTextError,
    "retries": WithoutDelayError,
    "exit": SystemExit,
    "interrupt": KeyboardInterrupt,
    "generator": GeneratorExit,
}
ENDS = ("exit", "interrupt", "generator")
RAISING = [word for word in ERRORS if word not in ENDS]
GOOD = ["a", "b", "c"]
WORDS = ["a", *RAISING[:3], "b", *RAISING[3:], "c"]


def picky(values: Sequence[Any], _context: TaskContext) -> Emits:
    if values[0] in ERRORS:
        raise ERRORS[values[0]]()
    return [(values, "default")]


PICKY = kinds(picky, *WORD)
PASS = kinds(lambda values, _: [(values, "default")], *WORD)


def steps(bolt: Any, guarantee: Guarantee = "at_least_once", **options: Any) -> Topology:
    builder = TopologyBuilder("raised", guarantee=guarantee)
    builder.set_spout("words", source(*WORD))
    options = {"on_exception": "fail", "retry": RetryPolicy(0, 0, 0, max_retries=2), **options}
    builder.set_bolt("picky", bolt, **options).shuffle_grouping("words")
    builder.set_bolt("last", Sink).shuffle_grouping("picky")
    return builder.build()


def words_of(cluster: SimulatedCluster) -> list[str]:
    return sorted(word for (word,) in cluster.executed("last"))


def feed_one_by_one(cluster: SimulatedCluster) -> None:
    """The tuples of a call fail together, so each call gets one."""
    for word in WORDS:
        cluster.feed("words", (word,))
        cluster.run_until_idle()


@pytest.mark.parametrize(
    ("kind", "on_exception"),
    [*((kind, "dead_letter") for kind in Kinds._fields), ("basic", "fail"), ("basic", "retry")],
)
def test_a_bolt_that_raises_anything_fails_that_tuple_alone(kind: str, on_exception: OnException) -> None:
    topology = steps(getattr(PICKY, kind), on_exception=on_exception)
    with SimulatedCluster(topology, sources={"words": []}) as cluster:
        feed_one_by_one(cluster)
        assert words_of(cluster) == GOOD
        # Of errors of ours, `on_exception` does not decide.
        letters = 4 if on_exception == "dead_letter" else 0
        assert (len(cluster.dead_letters()), len(cluster.failed("words"))) == (letters, 6 - letters)
        assert cluster.stats("picky").last_error.startswith("KeyError")


def test_at_most_once_loses_that_tuple_alone() -> None:
    words = [(word,) for word in WORDS]
    with SimulatedCluster(steps(PICKY.basic, "at_most_once"), sources={"words": words}) as cluster:
        cluster.run_until_idle()
        assert words_of(cluster) == GOOD


@pytest.mark.parametrize("kind", Kinds._fields)
def test_some_exceptions_end_the_process(kind: str) -> None:
    for word in ENDS if kind == "basic" else ENDS[:1]:
        topology = steps(getattr(PICKY, kind), on_exception="dead_letter")
        cluster = SimulatedCluster(topology, sources={"words": [(word,)]})
        with pytest.raises((SystemExit, KeyboardInterrupt, GeneratorExit)) as raised:
            cluster.run_until_idle()
        assert raised.type is ERRORS[word]


class Chooses(CustomGrouping):
    def choose(self, values: Sequence[Any]) -> Sequence[int]:
        picky(values, None)  # type: ignore[arg-type]
        return (0,)


def test_a_message_whose_custom_grouping_raises_anything_becomes_a_dead_letter() -> None:
    builder = TopologyBuilder("grouped")
    builder.set_spout("words", KafkaSpout("text", streams=WORD))
    builder.set_bolt("last", Sink, tasks=2).custom_grouping("words", Chooses)
    with SimulatedCluster(builder.build()) as cluster:
        for word in WORDS:
            cluster.produce("text", word)
        cluster.run_until_idle()
        assert words_of(cluster) == GOOD
        details = [letter.detail for letter in cluster.dead_letters()]
        assert len(details) == len(RAISING)
        assert all("Chooses.choose() raised " in detail for detail in details)


@pytest.mark.parametrize("kind", Kinds._fields)
def test_a_tuple_of_a_bolt_whose_custom_grouping_raises_anything_fails_its_input(kind: str) -> None:
    builder = TopologyBuilder("grouped")
    builder.set_spout("words", source(*WORD))
    builder.set_bolt("pass", getattr(PASS, kind)).shuffle_grouping("words")
    builder.set_bolt("last", Sink, tasks=2).custom_grouping("pass", Chooses)
    with SimulatedCluster(builder.build(), sources={"words": []}) as cluster:
        feed_one_by_one(cluster)
        assert words_of(cluster) == GOOD
        failures = [failure.message for _, failure in cluster.failed("words")]
        assert len(failures) == len(RAISING)
        assert all("Chooses.choose() raised " in message for message in failures)


def test_a_message_whose_translate_raises_anything_is_retried_or_invalid() -> None:
    calls: list[str] = []

    def translate(record: Any) -> Any:
        word = record.value().decode()
        calls.append(word)
        if word in ERRORS and calls.count(word) < 3:
            raise ERRORS[word]()
        if word == "invalid":
            raise InvalidError
        return (word,)

    builder = TopologyBuilder("translated")
    spout = KafkaSpout("text", streams=WORD, translate=translate, retry=RetryPolicy(0, 0, 0, max_retries=5))
    builder.set_spout("words", spout)
    builder.set_bolt("last", Sink).shuffle_grouping("words")
    with SimulatedCluster(builder.build()) as cluster:
        for word in [*WORDS, "invalid"]:
            cluster.produce("text", word)
        cluster.advance(3)
        assert words_of(cluster) == sorted(WORDS)
        (letter,) = cluster.dead_letters()
        assert letter.detail.startswith(
            "translate() raised InvalidError: its text cannot be read, __str__ raised Panic"
        )


def test_a_hook_that_raises_anything_is_reported() -> None:
    class Fails(TaskHook):
        def bolt_execute(self, tuple_: Any, *_: Any) -> None:
            picky(tuple_.values, None)  # type: ignore[arg-type]

    builder = TopologyBuilder("hooked")
    builder.add_hook(Fails)
    builder.set_spout("words", source(*WORD))
    builder.set_bolt("last", Sink).shuffle_grouping("words")
    with SimulatedCluster(builder.build(), sources={"words": [(word,) for word in WORDS]}) as cluster:
        cluster.run_until_idle()
        assert len(cluster.acked("words")) == len(WORDS)
        assert cluster.stats("last").errors == len(RAISING)
