"""Errors of looking into a topology; each message ends with what to do.

InspectionError
├── SilenceError             no process of the topology publishes statistics
├── MomentError              what was given as a time is none
├── DashboardError           the dashboard cannot be served as it was asked for
├── DeadLettersError         dead letters cannot be read or replayed as was asked
├── SpansError               trees cannot be made into spans, or these cannot be sent
└── TraceError               the topology has no trees, or no such partition
    ├── RootFormError        what was given as a root, a message or a tuple is none
    ├── RootNotFoundError    the ack log has no entry of the root in the window that was searched
    └── SearchLimitError     a search reached its limit of time or size
"""


class InspectionError(Exception):
    """Base of all errors raised by `inspection`."""


class SilenceError(InspectionError):
    """No process of a topology publishes statistics."""


class DashboardError(InspectionError):
    """The dashboard cannot be served as it was asked for."""


class MomentError(InspectionError):
    """What was given as a time, or as how long ago it is, is none."""


class DeadLettersError(InspectionError):
    """Dead letters cannot be read or replayed as was asked."""


class SpansError(InspectionError):
    """Trees cannot be made into spans, or these cannot be sent."""


class TraceError(InspectionError):
    """A tree cannot be traced."""


class RootFormError(TraceError):
    """What was given as a root, a message or a tuple is none."""


class RootNotFoundError(TraceError):
    """The ack log has no entry of the root in the window that was searched."""


class SearchLimitError(TraceError):
    """A search reached its limit of time or size."""
