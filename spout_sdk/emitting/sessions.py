"""Sessions: a new owner of a task opens one on every acker partition before it does anything else."""

from collections.abc import Sequence
from typing import Final, Protocol

from spout_sdk.errors import BrokerError, DeliveryError
from spout_sdk.records import Sink

OPEN_SECONDS: Final = 15.0
"""A broker that fails is replaced within this time; and it is less than a process has to stop."""


class Writer(Protocol):
    """A task of a bolt or a spout."""

    def open_session(self) -> None: ...

    @property
    def failure(self) -> DeliveryError | None: ...


def open_sessions(sink: Sink, writers: Sequence[Writer]) -> None:
    """Opens the sessions of tasks; raises `BrokerError` if that is not delivered in time."""
    for writer in writers:
        writer.open_session()
    left = sink.flush_acks(OPEN_SECONDS)
    for writer in writers:
        if writer.failure is not None:
            raise writer.failure
    if left:
        raise BrokerError(
            f"the sessions of {len(writers)} tasks could not be opened: {left} ack batches were not delivered within "
            f"{OPEN_SECONDS:.0f} s; check that the partitions of the ack topic have leaders"
        )
