"""Errors of the command line.

CliError
├── SettingsError     a setting that cannot be used; names the flag, the variable and the file key that set it
├── ProcessError      a child process that cannot be kept running
├── RemovalError      a topology that cannot be deleted now
└── DemoError         the demo could not be carried out
"""


class CliError(Exception):
    """Base of all errors raised by `acker_cli`; the message ends with what to do."""


class SettingsError(CliError):
    """A setting that cannot be used."""


class ProcessError(CliError):
    """A child process that cannot be kept running."""


class RemovalError(CliError):
    """A topology that cannot be deleted now."""


class DemoError(CliError):
    """The demo could not be carried out."""
