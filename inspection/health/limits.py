"""The thresholds of health. The rules of `deploy/alerts.yml` have the same; a test compares them."""

from typing import Final

RECENT_SECONDS: Final = 60.0
"""The period of the counts by which shares and rates are judged; a snapshot's `recent` covers it."""
STARTING_SECONDS: Final = 15.0
"""A process younger than that may not have tasks yet: its group waits for the session of an earlier member."""

STALLED_SECONDS: Final = 20.0
"""Seconds of work without progress."""
PAUSED_SECONDS: Final = 1.0
"""Seconds for which a task has paused because its calls raise: the call that it has tried again raised, too."""
EXECUTE_SHARE: Final = 2 / 3
"""Share of the message timeout that one `execute` may take: 20 s by default."""
RETRY_SECONDS: Final = 15.0
"""Seconds for which an input may be open that is executed again and again."""
OFTEN: Final = 4
"""Failures of a message, or repeated executions in a minute, from which on it is reported."""
MANY_RUNS: Final = 500
"""Runs of done messages, each after an open one, from which on open messages are reported."""

FAILED_SHARE: Final = 0.01
"""Share of the trees that ended in a minute that may fail."""
LATE_SHARE: Final = 0.01
"""Share of the tuples of a windowed bolt that may come when all their windows have closed."""
FEW: Final = 10
"""Failed trees, or late tuples, in a minute, up to which their share means nothing."""
DEAD_LETTERS: Final = 0
"""Dead letters in a minute that are not a finding."""
UNDELIVERED: Final = 0
"""Tuples that Kafka rejected in a minute that are not a finding."""

BUSY: Final = 0.9
"""Share of the time for which the busiest process of a bolt executes tuples, from which on it limits the topology."""
PENDING_SHARE: Final = 0.95
"""Share of `max_spout_pending`, from which on a spout waits for its bolts."""
SKEW: Final = 2.0
"""Rate of the busiest task over the mean of all, from which on one key or a few make it the slowest."""
CLOCK_LAG_SECONDS: Final = 30.0
"""Seconds by which outcomes may be late because the ack log is not read fast enough."""
CLOCK_SECONDS: Final = 2.0
"""Seconds by which clocks may differ."""
GROWTH_SECONDS: Final = 10.0
"""Seconds for which lags have to be watched in a process that follows them, before their growth means anything."""
GROWING_SECONDS: Final = 10.0
"""Seconds of work that a growing lag may be, before a bolt that is busy all the time is reported."""
RESTORE_SECONDS: Final = 300.0
"""Seconds that the restore of a state may take, if no message timeout is shorter."""
FEW_IDENTITIES: Final = 100_000
"""Identities of tuples that a state may keep."""
OPEN_SECONDS: Final = 600.0
"""Seconds of execution, at the current rate: with more identities than that, messages stay open for long."""
