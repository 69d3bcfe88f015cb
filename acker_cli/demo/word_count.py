"""The demo's topology: it counts the words of the lines of a topic.

    lines (2 tasks, with split) ──by word──▶ count (2 tasks)

`acker demo` starts it, but it is an ordinary topology: `acker run acker_cli.demo.word_count:topology --local`, or each
component as a service, as in `docker-compose.yml`. Its parameters are in the environment, because every process of the
topology builds it.
"""

import os
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Final

from acker_cli.demo.text import words
from spout_sdk import FailTupleError, KafkaSpout, Topology, TopologyBuilder

REFERENCE: Final = "acker_cli.demo.word_count:topology"
LINES: Final = "lines"
COUNT: Final = "count"
TASKS: Final = 2  # of each component, and partitions of the text

_PREFIX: Final = "WORD_COUNT_"
# Short, so that what was lost by a kill is replayed soon.
_MESSAGE_TIMEOUT: Final = 5.0
_TICK: Final = 0.5
# A line has nine words: enough to keep every process busy, and few enough that none waits long.
_MAX_SPOUT_PENDING: Final = 400


def split(line: str) -> Iterator[str]:
    """The words of a line."""
    yield from words(line)


def count(number: int, _word: str) -> int:
    """Counts a word once, even if its line is replayed."""
    return number + 1


def fail_at_random(_counted: tuple[str, int], draw: Callable[[], float], rate: float) -> None:
    """Fails words that are counted already, so that their lines are replayed."""
    if draw() < rate:
        raise FailTupleError("failed on purpose, after the word was counted")


def topology() -> Topology:
    """Builds the topology from the environment."""
    parameters = Parameters.from_environment(os.environ)
    builder = TopologyBuilder(
        parameters.name, message_timeout=_MESSAGE_TIMEOUT, tick=_TICK, max_spout_pending=_MAX_SPOUT_PENDING
    )
    lines = builder.spout(LINES, KafkaSpout(text_topic(parameters.name), value=str), tasks=TASKS)
    counted = lines.step(split).key_by("value").state(count, initial=0, tasks=TASKS)
    if parameters.fail_rate:
        draw = random.Random(parameters.seed).random  # noqa: S311
        counted.step(partial(fail_at_random, draw=draw, rate=parameters.fail_rate))
    return builder.build()


def text_topic(name: str) -> str:
    """The topic of the text of a topology: the number of a line is the key of its message."""
    return f"{name}.text"


@dataclass(frozen=True, slots=True)
class Parameters:
    """Settings that vary between runs."""

    name: str = "word-count"  # of the topology
    directory: Path = Path("word-count")  # of the files of the word count in Spark
    fail_rate: float = 0.0  # share of counted words that fail
    seed: int = 0  # of the choice which
    rate: float = 0.0  # lines that are written to the topic a second; 0 for as many as possible
    lines: int = 0  # how many of the text are written, from its beginning; 0 for all

    def to_environment(self) -> dict[str, str]:
        values = {**asdict(self), "directory": self.directory.absolute()}
        return {_PREFIX + name.upper(): str(value) for name, value in values.items()}

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "Parameters":
        """Reads what `to_environment` wrote; what is missing has its default."""
        default = asdict(cls())
        given = {name: environment[_PREFIX + name.upper()] for name in default if _PREFIX + name.upper() in environment}
        return cls(**{name: type(default[name])(value) for name, value in given.items()})
