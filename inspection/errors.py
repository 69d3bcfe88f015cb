"""Errors of `inspection`; each message ends with what to do.

InspectionError
├── NoStatisticsError, MomentError, ServingError, DeadLettersError, SpansError, SearchLimitError
├── StateKeyError
│   └── StateKeyNotFoundError
├── StatusError
│   └── MessageNotFoundError
└── TraceError
    └── RootFormError, RootNotFoundError
"""


class InspectionError(Exception):
    """Base of all errors raised by `inspection`."""


class NoStatisticsError(InspectionError):
    """No process of a topology publishes statistics."""


class ServingError(InspectionError):
    """The dashboard, the gateway or metrics cannot be served: its address, token or certificate, or it has stopped."""


class MomentError(InspectionError):
    """A text is neither a time nor a duration."""


class DeadLettersError(InspectionError):
    """Dead letters cannot be read or replayed."""


class SpansError(InspectionError):
    """Trees cannot be converted to spans, or these cannot be sent."""


class TraceError(InspectionError):
    """A tree cannot be traced: the topology has no trees, or no such partition."""


class RootFormError(TraceError):
    """A text is not a root, message or tuple of the topology."""


class RootNotFoundError(TraceError):
    """The ack log has no entry of the root in the window that was searched."""


class StateKeyError(InspectionError):
    """A text is not a key of a state, or its changelog cannot be used."""


class StateKeyNotFoundError(StateKeyError):
    """A state has no such key."""


class StatusError(InspectionError):
    """The status of a message cannot be read: a text is not a position, or the topology has no such source."""


class MessageNotFoundError(StatusError):
    """The sources of a topology have no such message."""


class SearchLimitError(InspectionError):
    """A search reached its limit of time or size."""
