"""Errors of the domain.

TupleTreeError
├── WireError          bytes that do not follow the wire contract (malformed batch, header or payload)
│   └── VersionError       something that another version wrote, and this one cannot read
├── InvalidNameError   a topology, component, stream or field name that cannot be used
├── ManifestError      a manifest that does not describe a topology
├── PositionError      a source position that does not fit a positional root id
└── StatsRecordError   a record of `{topology}.stats` that cannot be read
"""

from typing import Final

_DETAIL_CHARACTERS: Final = 500


class TupleTreeError(Exception):
    """Base of all errors raised by `tuple_tree`."""


class WireError(TupleTreeError):
    """Bytes that do not follow the wire contract in `schemas/`.

    Attributes:
        reason: a short, stable word for metrics and dead-letter headers, e.g. `truncated`.
        detail: a sentence for a person, of bounded length: it becomes a record's header, and what is wrong with the
            bytes may quote all of them.
    """

    def __init__(self, reason: str, detail: str) -> None:
        if len(detail) > _DETAIL_CHARACTERS:
            detail = detail[: _DETAIL_CHARACTERS - 1] + "…"
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


class VersionError(WireError):
    """Something that another version wrote: it is no garbage, so it must not be set aside, and the reader stops.

    Upgrade the reader.
    """

    def __init__(self, detail: str) -> None:
        super().__init__("unsupported-version", detail)


class InvalidNameError(TupleTreeError, ValueError):
    """A topology, component, stream or field name that cannot be used.

    A `ValueError` too, so that pydantic counts it among the findings of a manifest.
    """


class ManifestError(TupleTreeError):
    """A manifest that does not describe a topology."""


class PositionError(TupleTreeError):
    """A source position that does not fit a positional root id."""


class StatsRecordError(TupleTreeError):
    """A record of `{topology}.stats` that cannot be read."""
