"""Errors of tracing.

TraceError
├── RootFormError         what was given as a root or a message is none
├── RootNotFoundError     the ack log says nothing of the root in the window that was searched
└── SearchLimitError      a search that is bounded has come to its bounds
"""


class TraceError(Exception):
    """Base of all errors raised by tracing; the message ends with what to do."""


class RootFormError(TraceError):
    """What was given as a root id or a message id is none."""


class RootNotFoundError(TraceError):
    """The ack log says nothing of the root in the window that was searched."""


class SearchLimitError(TraceError):
    """A search that is bounded, in time or in what it may find, has come to its bounds."""
