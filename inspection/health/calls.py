"""Checks of the calls of bolts: whether they return, raise, or are made again and again; and of what they hold."""

from collections.abc import Iterator

from inspection.health.findings import Check, Finding
from inspection.health.limits import EXECUTE_SHARE, OFTEN, PAUSED_SECONDS, RETRY_SECONDS
from inspection.health.observation import Observation
from inspection.notation import counted


def check_executes(observed: Observation) -> Iterator[Finding]:
    """No call of `execute` takes nearly a message timeout."""
    for head in observed.manifest.heads:
        view = observed.components[head.name]
        if view["execute_seconds"] > EXECUTE_SHARE * observed.timeout_s(head.name):
            yield Check("execute", head.name, component=head.name).problem(
                f"{observed.with_chained(head)}: one execute has been running for {view['execute_seconds']:,.0f} s, at "
                f"{view['execute_at']}. Its process executes nothing else, and the trees that wait for it fail at "
                "max_tree_age.",
                "See what it waits for: py-spy dump --pid PID on its host, and its log. It ends by itself at "
                "max.poll.interval.ms. Emit smaller pieces of work, wait in an AsyncBolt, or raise message_timeout.",
            )


def check_paused(observed: Observation) -> Iterator[Finding]:
    """No task pauses because its calls raise."""
    for name, view in observed.components.items():
        if view["paused_seconds"] > PAUSED_SECONDS:
            yield Check("paused", name, component=name).problem(
                f"All calls of bolt {name} raise, so it has paused for {view['paused_seconds']:,.0f} s: "
                f"{view['paused_by']}. What waits is kept, and its trees are kept alive until max_tree_age.",
                "Check the service that it calls: is it up, and can it be reached from the bolt's host? It tries one "
                "call at a time, and continues by itself when that returns.",
            )


def check_failing(observed: Observation) -> Iterator[Finding]:
    """Bolts ack some of their inputs."""
    for name, view in observed.components.items():
        if view["failing"]:
            error = f" The last exception: {view['last_error']}." if view["last_error"] else ""
            yield Check("failures", name, component=name).problem(
                f"Bolt {name} fails all its tuples, {view['failed_per_second'] or 0.0:,.1f} a second, and acks none: "
                f"their trees are replayed again and again.{error}",
                "Fix the cause: its log has the traceback with topic, partition, offset and roots. Which trees: acker "
                f"trace --last-failed 3 --topology {observed.topology}.",
            )


def check_retries(observed: Observation) -> Iterator[Finding]:
    """No tuple is executed again and again."""
    for bolt in observed.manifest.bolts:
        name, view = bolt.name, observed.components[bolt.name]
        again, age = view["recent"]["retried"], view["oldest_input_seconds"]
        if view["retrying"] and again >= OFTEN and age > RETRY_SECONDS and not view["paused_seconds"]:
            error = f": {view['last_error']}" if view["last_error"] else ""
            tuples, times = counted(view["retrying"], "tuple"), counted(again, "time")
            yield Check("retries", name, component=name).warning(
                f"Bolt {name} executes {tuples} again and again, {times} in the last minute{error}. The oldest of its "
                f"inputs, {view['oldest_input']}, has been open for {age:,.0f} s.",
                "Fix the cause: its log has the traceback. For a tuple that no call can execute raise FailTupleError, "
                'or limit its retries with retry=RetryPolicy(max_retries=…) and on_exhausted="dead_letter".',
            )


def check_inputs(observed: Observation) -> Iterator[Finding]:
    """Bolts ack or fail their inputs within a message timeout; chained bolts report no inputs."""
    for bolt in observed.manifest.inboxes:
        if is_forgotten(observed, bolt.name):
            view = observed.components[bolt.name]
            place, topology = view["oldest_input"], observed.topology
            inbox, _, offset = place.rpartition(" offset ")
            task = inbox.rpartition("[")[2].removesuffix("]")
            yield Check("inputs", bolt.name, component=bolt.name).warning(
                f"{observed.with_chained(bolt)} has neither acked nor failed {place} for "
                f"{view['oldest_input_seconds']:,.0f} s. The offset of its group stays there; what is done past it "
                "is in the metadata of the commit.",
                "If it has windows: those by event time or by count hold inputs until newer ones come; does its source "
                "pause, or one of its streams? Any other bolt has to ack or fail each input. Its trees: acker trace "
                f"--tuple {bolt.name}/{task}@{offset} --topology {topology}.",
            )


def is_forgotten(observed: Observation, bolt: str) -> bool:
    """Whether an input of a bolt is open for longer than a message timeout."""
    view = observed.components[bolt]
    # While an execute runs, nothing is acked.
    is_late = view["oldest_input_seconds"] > observed.timeout_s(bolt) and not view["execute_seconds"]
    return bool(view["oldest_input"]) and is_late
