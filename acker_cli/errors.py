"""Errors of the command line; each message ends with what to do."""

from typing import Final

OURS: Final = frozenset(
    {"acker_cli", "acker_worker", "inspection", "kafka_clients", "local_kafka", "spark_jobs", "spout_sdk", "tuple_tree"}
)
"""The packages of this project, whose errors say what to do."""


class CliError(Exception):
    """Base of all errors raised by `acker_cli`."""


class SettingsError(CliError):
    """A setting that cannot be used; the message names the flag, the variable and the file key that set it."""


class ProcessError(CliError):
    """A child process that cannot be kept running."""
