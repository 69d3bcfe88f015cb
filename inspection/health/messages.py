"""Checks of messages that fail again and again, and of the shares of failed trees, late tuples and dead letters."""

from collections.abc import Iterator, Set

from inspection.health.findings import Check, Finding
from inspection.health.limits import (
    DEAD_LETTERS,
    FAILED_SHARE,
    FEW,
    LATE_SHARE,
    MANY_RUNS,
    OFTEN,
    UNDELIVERED,
)
from inspection.health.observation import Observation, OpenMessage
from inspection.notation import counted
from tuple_tree.messages import FailReason
from tuple_tree.names import component_group


def is_noteworthy(failures: int, open_runs: int) -> bool:
    """Whether the oldest unfinished message of a partition is reported, and its age worth a read."""
    return failures >= OFTEN or open_runs >= MANY_RUNS


def check_open_messages(observed: Observation) -> Iterator[Finding]:
    """Messages of a spout's source do not fail again and again."""
    for message in observed.open_messages:
        age = "" if message.age_seconds is None else f" and is {message.age_seconds:,.0f} s old"
        failed = f"has failed {counted(message.failures, 'time')}{age}" if message.failures else f"is open{age}"
        spout = _spout_of(observed, message)
        place, bolt, by, limit = f"{message.topic}[{message.partition}] offset {message.offset}", None, "", None
        if spout is not None:
            view = observed.components[spout]
            limit = view["settings"].get("max_retries")
            if (most := view["most_failed"]) is not None and most["place"] == place:
                bolt = most["component"] or None
                by = f", the last time{f' in bolt {bolt}' if bolt else ''} with {most['error']}"
        at = f"{message.topic}/{message.partition}/{message.offset}"
        yield Check("open-messages", message.group, component=bolt or spout).warning(
            f"{place} {failed}{by}: the offset of group {message.group} stays there. Done past it: "
            f"{counted(message.done_ahead, 'message')}; open, with it: {message.open_ahead:,}.",
            f"Its tree: acker status {observed.topology} --offset {at}. {_end_of_retries(limit)}",
        )


def check_trees(observed: Observation, explained: Set[str]) -> Iterator[Finding]:
    """Few trees fail, of all that have ended in the last minute.

    Args:
        explained: components with a finding that explains why trees fail.
    """
    for spout in observed.manifest.spouts:
        recent = observed.components[spout.name]["recent"]
        failed = sum(recent["failed"].values())
        ended = failed + recent["acked"]
        behind = {bolt.name for bolt in observed.downstream(spout.name)}
        if failed <= FEW or failed <= FAILED_SHARE * ended or not explained.isdisjoint({spout.name, *behind}):
            continue
        counts = ", ".join(f"{reason} {count:,}" for reason, count in recent["failed"].items())
        by = ""
        if 2 * recent["failed"].get(FailReason.FAILED.word, 0) >= failed:
            bolt = _failing_bolt(observed, spout.name)
            by = "" if bolt is None else f" Most were failed by bolt {bolt}{_last_failure(observed, bolt)}."
        elif (bolt := _slow_bolt(observed, spout.name)) is not None:
            view = observed.components[bolt]
            by = f" Bolt {bolt} has the oldest of their inputs, {view['oldest_input_seconds']:,.0f} s old."
        check = Check("trees", spout.name, component=bolt or spout.name)
        yield check.warning(
            f"{failed:,} of the {ended:,} trees of spout {spout.name} that ended in the last minute failed, "
            f"{100 * failed / ended:.1f} % ({counts}).{by}",
            f"Which trees: acker trace --last-failed 3 --topology {observed.topology}. Trees that time out: a bolt "
            "that is slower than its input, a timeout that is too short, or an input that is never acked.",
        )


def check_late(observed: Observation) -> Iterator[Finding]:
    """Few tuples come when all their windows have closed, or they go to a stream."""
    for name, view in observed.components.items():
        late, executed = view["recent"]["late_tuples"], view["recent"]["executed"]
        if "late_stream" not in view["settings"] and late > FEW and late > LATE_SHARE * executed:
            yield Check("late-tuples", name, component=name).warning(
                f"{late:,} of the {executed:,} tuples that bolt {name} executed in the last minute came when all their "
                "windows had closed: they are acked, and in no result.",
                "Give its windows a larger lag, with_lag(), or send late tuples to a stream, "
                "with_late_tuple_stream(); does a source or one of its streams lag behind?",
            )


def check_dead_letters(observed: Observation) -> Iterator[Finding]:
    """No record becomes a dead letter."""
    for name, view in observed.components.items():
        if (letters := view["recent"]["dead_letters"]) > DEAD_LETTERS:
            last = f" The last one: {view['last_dead_letter']}." if view["last_dead_letter"] else ""
            # A letter of a message names no inbox, so its topic has to be given.
            topic = f" --topic {view['sources'][0]}" if view["sources"] else ""
            again = f"replay them: acker dead-letters replay {observed.topology} --component {name}{topic}."
            if (head := view["head"]) != name:
                again = f"send their messages to the source topic again: {name} is chained to {head}, and has no inbox."
            yield Check("dead-letters", name, component=name).warning(
                f"{view['kind'].capitalize()} {name} has made {counted(letters, 'dead letter')} in "
                f"the last minute.{last}",
                f"List them: acker dead-letters list {observed.topology} --component {name}. Fix the cause, and "
                f"{again}",
            )


def check_undelivered(observed: Observation) -> Iterator[Finding]:
    """Kafka takes what is sent."""
    for name, view in observed.components.items():
        if (lost := view["recent"]["undelivered"]) > UNDELIVERED:
            yield Check("undelivered", name, component=name).problem(
                f"Kafka has rejected {counted(lost, 'tuple')} of {view['kind']} {name} in the last minute: their "
                "trees fail at once, and are replayed.",
                "Its log has the error: an inbox that was deleted, a record larger than max.message.bytes, a missing "
                "WRITE ACL, or brokers that were away, or whose disks are full.",
            )


def _end_of_retries(limit: int | None) -> str:
    if limit is None:
        return "A KafkaSpout with max_retries in its RetryPolicy makes a dead letter of it in the end."
    return f"It becomes a dead letter after {counted(limit, 'retry', 'retries')}, as its RetryPolicy says."


def _last_failure(observed: Observation, bolt: str) -> str:
    why = observed.components[bolt]["last_failure"]
    return f", the last time because of {why}" if why else ""


def _spout_of(observed: Observation, message: OpenMessage) -> str | None:
    groups = {component_group(observed.topology, spout.name): spout.name for spout in observed.manifest.spouts}
    return groups.get(message.group)


def _slow_bolt(observed: Observation, spout: str) -> str | None:
    """The bolt of a spout with the input that is open for longest; None if none is."""
    ages = {bolt.name: observed.components[bolt.name]["oldest_input_seconds"] for bolt in observed.downstream(spout)}
    oldest = max(ages, key=lambda name: ages[name], default=None)
    return oldest if oldest is not None and ages[oldest] else None


def _failing_bolt(observed: Observation, spout: str) -> str | None:
    """The bolt of a spout that has failed most tuples in the last minute; None if none has failed one."""
    failed = {
        bolt.name: sum(observed.components[bolt.name]["recent"]["failed"].values())
        for bolt in observed.downstream(spout)
    }
    most = max(failed, key=lambda name: failed[name], default=None)
    return most if most is not None and failed[most] else None
