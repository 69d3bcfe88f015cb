"""Checks of the calls of bolts: whether they return, raise, or are made again and again; and of what they hold."""

from collections.abc import Iterator
from typing import Final

from inspection.health.findings import Check, Finding
from inspection.health.limits import EXECUTE_SHARE, OFTEN, PAUSED_SECONDS, RETRY_SECONDS
from inspection.health.observation import Observation
from inspection.notation import counted
from inspection.view import ComponentView

_LIMIT_RETRIES: Final = ', or limit its retries with retry=RetryPolicy(max_retries=…) and on_exhausted="dead_letter"'


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
            error = f" The last reason: {view['last_failure']}." if view["last_failure"] else ""
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
        most = view["most_failed"]
        if most is None or most["times"] < OFTEN or most["seconds"] <= RETRY_SECONDS or view["paused_seconds"]:
            continue
        limit = view["settings"].get("max_retries")
        ends = "" if limit is None else f" Its RetryPolicy gives it up after {counted(limit, 'retry', 'retries')}."
        advice = "" if limit is not None else _LIMIT_RETRIES
        yield Check("retries", name, component=name).warning(
            f"Bolt {name} executes the tuple at {most['place']} again and again, for {most['seconds']:,.0f} s: it has "
            f"failed {counted(most['times'], 'time')}, the last time with {most['error']}.{ends}",
            f"Fix the cause: its log has the traceback. For a tuple that no call can execute raise FailTupleError"
            f"{advice}.",
        )


def check_inputs(observed: Observation) -> Iterator[Finding]:
    """Bolts ack or fail their inputs in time; chained bolts report no inputs."""
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
                f"{_why_open(view)} Its trees: acker trace --tuple {bolt.name}/{task}@{offset} --topology {topology}.",
            )


def _why_open(view: ComponentView) -> str:
    """The remedy for an input of a bolt that stays open, by what holds it."""
    if view["retrying"]:
        return "Tuples wait for a retry: the log of the bolt has their exceptions."
    if "concurrency" in view["settings"]:
        return "See what its coroutines wait for, such as a request without a time limit."
    return "The bolt has to ack or fail each input, also one for which it emits nothing."


def is_forgotten(observed: Observation, bolt: str) -> bool:
    """Whether an input of a bolt is open for longer than its settings allow."""
    view = observed.components[bolt]
    # While an execute runs, nothing is acked.
    is_late = view["oldest_input_seconds"] > observed.patience_s(bolt) and not view["execute_seconds"]
    return bool(view["oldest_input"]) and is_late
