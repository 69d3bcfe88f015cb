"""What a `KafkaSpout` is given, and the progress of its task."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from spout_sdk.arguments import check_count, check_seconds
from spout_sdk.errors import TopologyError
from spout_sdk.records import Record
from tuple_tree.errors import WireError
from tuple_tree.payloads import decode_tuples, payload_codec
from tuple_tree.streams import DEFAULT_STREAM, Stream

FirstPoll = Literal["uncommitted_earliest", "uncommitted_latest", "earliest", "latest"]
"""Storm's strategies of the first poll.

- `uncommitted_earliest`: at the committed offset; at the beginning where nothing is committed.
- `uncommitted_latest`: at the committed offset; behind the last message where nothing is committed.
- `earliest`, `latest`: at the beginning or behind the last message, whatever another program, an operator's tool for
  instance, has committed for the group.

What the spout itself has committed always counts: a process that is started again goes on.
"""

Mode = Literal["at_least_once", "at_most_once", "no_guarantee"]
"""Storm's processing guarantees.

- `at_least_once`: the acked prefix is committed, and what fails is delivered again.
- `at_most_once`: what was read is committed before it is emitted; trees are not followed.
- `no_guarantee`: what was emitted is committed now and then; trees are not followed.
"""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Exponential backoff, as Storm's `KafkaSpoutRetryExponentialBackoff`.

    The first failure is retried after `initial_delay`, the n-th after `delay_period * 2 ** (n - 1)`, none later than
    `max_delay`. It is retried until it is acked; with `max_retries` it becomes a dead letter after so many
    retries.

    Attributes:
        initial_delay: seconds.
        delay_period: seconds.
        max_delay: seconds.
        max_retries: deliveries after the first one; None, the default, for no limit.

    Raises:
        TopologyError: if a number is invalid.
    """

    initial_delay: float = 0.0
    delay_period: float = 0.1
    max_delay: float = 10.0
    max_retries: int | None = None

    def __post_init__(self) -> None:
        for name in ("initial_delay", "delay_period", "max_delay"):
            check_seconds(f"{name} of a RetryPolicy", getattr(self, name), least=0)
        if self.max_retries is not None:
            check_count("max_retries of a RetryPolicy", self.max_retries, least=0)

    def delay(self, failures: int) -> float | None:
        """Seconds from a failure to the next delivery.

        Args:
            failures: how often the message has failed, this time included.

        Returns:
            None if it is no longer tried.
        """
        if self.max_retries is not None and failures > self.max_retries:
            return None
        if failures <= 1:
            return min(self.initial_delay, self.max_delay)
        # Two to the power of what would overflow a float is far beyond any cap.
        return min(self.delay_period * 2.0 ** min(failures - 1, 512), self.max_delay)


@dataclass(frozen=True, slots=True)
class KafkaTuple:
    """Values for a stream other than the default one.

    Attributes:
        values: one for each field of the stream.
        stream: one of the spout's streams.
    """

    values: Sequence[Any]
    stream: str = DEFAULT_STREAM


Translate = Callable[[Record], Sequence[Any] | KafkaTuple | None]
"""Makes the values of a tuple of a message; None skips the message.

It raises `InvalidMessageError` for a message that no retry can translate.

The message gives its `topic()`, `partition()`, `offset()`, `key()`, `value()` (None for a tombstone), `headers()` and
`timestamp()`.
"""


def default_translate(streams: Sequence[Stream]) -> Translate:
    """One field of text or bytes is the value of the message; anything else is read with the stream's codec.

    With that of Avro, if the stream's is `arrow`, since a message of a source is one tuple. Raises `TopologyError` if
    there is not exactly one stream.
    """
    if len(streams) != 1:
        raise TopologyError(f"a KafkaSpout with {len(streams)} streams needs translate=, which decides what goes where")
    stream = streams[0]
    name = stream.name
    kind = stream.fields[0].type if len(stream.fields) == 1 else None
    codec = payload_codec(stream.model_copy(update={"codec": "avro"}) if stream.codec == "arrow" else stream)

    def translate(record: Record) -> Sequence[Any] | KafkaTuple:
        value = record.value()
        if value is None:
            raise WireError("bad-payload", "a tombstone has no value to emit: pass translate= to skip it")
        values: Sequence[Any]
        if kind == "string":
            try:
                values = (value.decode(),)
            except UnicodeDecodeError as error:
                raise WireError("bad-payload", f"the value is not UTF-8: {error}") from error
        elif kind == "bytes":
            values = (value,)
        else:
            (values,) = decode_tuples(codec, value)
        return values if name == DEFAULT_STREAM else KafkaTuple(values, name)

    return translate


@dataclass(frozen=True, slots=True)
class SourceSettings:
    topics: tuple[str, ...]
    translate: Translate
    first_poll: FirstPoll
    mode: Mode | None
    retry: RetryPolicy
    max_uncommitted_offsets: int


class SourceProgress(NamedTuple):
    """How far a task is with its source.

    Attributes:
        lag: messages that were not emitted yet, as far as is known without asking the broker.
        uncommitted: offsets that were emitted and lie behind the one to be committed.
        retries: messages that wait to be delivered again.
    """

    lag: int
    uncommitted: int
    retries: int
