"""Errors of Spark jobs.

SparkJobError
├── ComponentRefusedError    the topology has no such component, or it is of the wrong kind
├── TransformRefusedError    `transform`'s result is not what the bolt has to emit
├── CheckpointRefusedError   the checkpoint belongs to something else
├── TopicsRefusedError       topics are missing, or have another number of partitions than the topology says
└── SubmitError              a job that cannot be built from what the driver was given, or that failed
"""


class SparkJobError(Exception):
    """Base of all errors raised by `spark_jobs`; the message ends with what to do."""


class ComponentRefusedError(SparkJobError):
    """The topology has no such component, or it cannot be run in this way."""


class TransformRefusedError(SparkJobError):
    """The result of `transform` lacks a column that the bolt has to emit, or has another type for it."""


class CheckpointRefusedError(SparkJobError):
    """The checkpoint was written by another topology or component: its offsets and sequence numbers mean nothing."""


class TopicsRefusedError(SparkJobError):
    """Topics are missing, have another number of partitions than the topology says, or this user may not use them."""


class SubmitError(SparkJobError):
    """The driver's arguments do not name a job, or the job failed."""


class StoppedBetweenBatches(SparkJobError):  # noqa: N818 - it ends a query, and is not a failure
    """Ends a query before a micro-batch; what that would have processed is processed after the next start."""


def first_line(error: BaseException) -> str:
    """The message of an error, without the pages that Spark and Java add to it."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), "without a message")
