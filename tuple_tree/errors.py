"""Errors of the domain.

TupleTreeError
├── WireError          bytes that do not follow the wire contract (malformed batch, header or payload)
│   ├── StateRecordError   a record of the changelog of a state that cannot be read
│   └── VersionError       something that another version wrote, and this one cannot read
├── CommitError        metadata of a committed offset that cannot be read
├── InvalidNameError   a topology, component, stream or field name that cannot be used
├── ManifestError      a manifest that does not describe a topology
├── PositionError      a source position that does not fit a positional root id
└── StatsRecordError   a record of `{topology}.stats` that cannot be read
"""

from typing import Any, Final

ENDS_PROCESS: Final = (KeyboardInterrupt, SystemExit, GeneratorExit)
"""Exceptions with which a user's code ends its process; any other one fails the tuple or the message of the call."""

_DETAIL_CHARACTERS: Final = 500
_SHOWN_CHARACTERS: Final = 200


def describe(error: BaseException) -> str:
    """The type and the text of an exception, which may be of a user's class: it does not raise."""
    text = text_of(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def text_of(value: Any) -> str:
    """`str(value)`, for any object of a user's class."""
    try:
        return str(value)
    except ENDS_PROCESS:
        raise
    except BaseException as error:  # noqa: BLE001 - any exception of the user's __str__
        return f"its text cannot be read, __str__ raised {type(error).__name__}"


def shown(value: Any) -> str:
    """The first characters of `repr(value)`, for any object of a user's class."""
    try:
        text = repr(value)
    except ENDS_PROCESS:
        raise
    except BaseException as error:  # noqa: BLE001 - any exception of the user's __repr__
        return f"a {type(value).__name__}, whose __repr__ raised {type(error).__name__},"
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…"


class TupleTreeError(Exception):
    pass


class WireError(TupleTreeError):
    """Its reason is a short, stable word for metrics and dead-letter headers; its detail a sentence for a person.

    The detail has a bounded length, because it becomes a record's header, and may quote all of the bytes.
    """

    def __init__(self, reason: str, detail: str) -> None:
        if len(detail) > _DETAIL_CHARACTERS:
            detail = detail[: _DETAIL_CHARACTERS - 1] + "…"
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


class StateRecordError(WireError):
    """Never a dead letter: a record of a changelog is a part of the state."""

    def __init__(self, detail: str) -> None:
        super().__init__("bad-state-record", detail)


class VersionError(WireError):
    """Not a dead letter: the reader stops, and has to be upgraded."""

    def __init__(self, detail: str) -> None:
        super().__init__("unsupported-version", detail)


class CommitError(TupleTreeError):
    """The metadata of a committed offset is of another version, or damaged."""


class InvalidNameError(TupleTreeError, ValueError):
    """A `ValueError` too, so that pydantic counts it among the findings of a manifest."""


class ManifestError(TupleTreeError):
    pass


class PositionError(TupleTreeError):
    pass


class StatsRecordError(TupleTreeError):
    pass


class ControlRecordError(TupleTreeError):
    pass
