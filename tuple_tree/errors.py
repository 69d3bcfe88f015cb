"""Errors of the domain.

TupleTreeError
├── WireError          bytes that are not what the wire contract says (malformed batch, header or payload)
├── InvalidNameError   a topology, component, stream or field name that cannot be used
├── ManifestError      a manifest that does not describe a topology
└── PositionError      a source position that does not fit a positional root id
"""


class TupleTreeError(Exception):
    """Base of all errors raised by `tuple_tree`."""


class WireError(TupleTreeError):
    """Bytes that do not follow the wire contract in `schemas/`.

    Attributes:
        reason: a short, stable word for metrics and dead-letter headers, e.g. `truncated`.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


class InvalidNameError(TupleTreeError):
    """A topology, component, stream or field name that cannot be used."""


class ManifestError(TupleTreeError):
    """A manifest that does not describe a topology."""


class PositionError(TupleTreeError):
    """A source position that does not fit a positional root id."""
