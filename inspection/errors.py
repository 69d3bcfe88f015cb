"""Errors of looking into a topology.

InspectionError
├── SilenceError     no process of the topology says how it does
├── MomentError      what was given as a time is none
└── DashboardError   the dashboard cannot be served as it was asked for
"""


class InspectionError(Exception):
    """Base of all errors raised by `inspection`; the message ends with what to do."""


class SilenceError(InspectionError):
    """No process of a topology says how it does."""


class DashboardError(InspectionError):
    """The dashboard cannot be served as it was asked for."""


class MomentError(InspectionError):
    """What was given as a time, or as how long ago it is, is none."""
