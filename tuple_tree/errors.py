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

from typing import Final

_DETAIL_CHARACTERS: Final = 500


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
