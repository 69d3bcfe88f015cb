"""Checks of lags: whether they are processed before their trees time out, and what makes a bolt slow."""

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import NamedTuple

from inspection.health.calls import is_forgotten
from inspection.health.findings import Check, Finding, Severity
from inspection.health.limits import BUSY, FEW, GROWING_SECONDS, PENDING_SHARE, SKEW
from inspection.health.observation import LagChange, Observation
from inspection.view import ComponentView
from tuple_tree.components import Component
from tuple_tree.names import acker_group, acks_topic, component_group, tuples_topic


def _faster(view: ComponentView) -> str:
    if (concurrency := view["settings"].get("concurrency")) is not None:
        return f"make its execute_async faster, or raise its concurrency, {concurrency}"
    return "make its execute faster, or wait in an AsyncBolt"


def _more(head: Component, view: ComponentView) -> str:
    """How more of a component can run: each task may have a process, and a state keeps its tasks."""
    if view["processes"] < head.tasks:
        return f"start more processes, up to its {head.tasks} tasks"
    return "run a second topology with more tasks" if getattr(head, "state", None) else "declare more tasks"


class _Late(NamedTuple):
    """A lag that takes longer than a message timeout, or grows in the source of a spout."""

    change: LagChange
    needs_s: float
    timeout_s: float

    @property
    def words(self) -> str:
        each = self.change
        return (
            f"a lag of {each.after:,} {{}} of {each.topic}, partition {each.partition}, and does {_rate(each.rate)} a "
            f"second: it needs {self.needs_s:,.0f} s for them"
        )


def check_slow(observed: Observation) -> Iterator[Finding]:
    """No bolt is so slow that its tuples time out, or that the source of its spout grows."""
    by_bolt = {
        bolt.name: _late(observed, tuples_topic(observed.topology, bolt.name), GROWING_SECONDS)
        for bolt in observed.manifest.inboxes
    }
    grown = {spout: late for spout in observed.manifest.spouts if (late := _grown(observed, spout.name)) is not None}
    for head in observed.manifest.heads:
        view = observed.components[head.name]
        # It is not known yet whether a call hangs that has taken longer than the rates cover.
        in_doubt = view["execute_seconds"] > observed.snapshot["window_seconds"]
        if _busy(observed, view) < BUSY or in_doubt or view["paused_seconds"]:
            continue
        reached = [
            late
            for spout, late in grown.items()
            if spout.name == head.name or any(each.name == head.name for each in observed.downstream(spout.name))
        ]
        own = by_bolt.get(head.name)
        if own is not None or reached:
            yield _slow(observed, head, view, own, reached)


def check_lag(observed: Observation, explained: Collection[str]) -> Iterator[Finding]:
    """Lag is processed before its trees time out.

    Args:
        explained: components with a finding that explains their lag, and the lag of their spouts.
    """
    manifest = observed.manifest
    for bolt in manifest.inboxes:
        topic, group = tuples_topic(observed.topology, bolt.name), component_group(observed.topology, bolt.name)
        if bolt.name in explained:
            continue
        view = observed.components[bolt.name]
        check = Check("lag", group, component=bolt.name)
        if standing := _standing(observed, topic):
            yield _stands(observed, check, standing)
        if manifest.acking and (late := _late(observed, topic)) is not None:
            grows = "; it grows" if late.change.after > late.change.before else ""
            yield check.problem(
                f"Group {group} has {late.words.format('records')}, but their trees time out after "
                f"{late.timeout_s:g} s and are replayed, which makes it longer{grows}.",
                f"{_more(bolt, view)}, {_faster(view)}, lower max_spout_pending, or raise the message timeout.",
            )
    acks = acks_topic(observed.topology)
    group = acker_group(observed.topology)
    if manifest.acking and group not in explained:
        if standing := _standing(observed, acks):
            yield _stands(observed, Check("lag", group), standing)
        if (late := _late(observed, acks)) is not None:
            yield Check("lag", group).warning(
                f"Group {group} has {late.words.format('records')}, and the message timeout is {late.timeout_s:g} s. "
                "No tree fails because of that, but outcomes are late by this time: spouts wait at max_spout_pending.",
                "Start more acker workers, up to one for each ack partition.",
            )
    for spout in manifest.spouts:
        behind = {bolt.name for bolt in observed.downstream(spout.name)}
        if behind.isdisjoint(explained) and spout.name not in explained and group not in explained:
            yield from _source(observed, spout.name)


def _source(observed: Observation, spout: str) -> Iterator[Finding]:
    late = _grown(observed, spout)
    if late is None:
        return
    view, group = observed.components[spout], component_group(observed.topology, spout)
    topic = late.change.topic
    most = view["max_pending"]
    if most and (view["pending"] or 0) >= PENDING_SHARE * most:
        remedy = (
            f"It has max_spout_pending trees open, and no bolt is busy: raise max_spout_pending, or see in acker trace "
            f"--oldest 3 --topology {observed.topology} what its trees wait for."
        )
    else:
        remedy = (
            "See in acker top which component lags, and start more processes or declare more tasks for it; or "
            "raise max_spout_pending."
        )
    yield Check("lag", group, component=spout).warning(
        f"Group {group} has {late.words.format('messages')}; it grows. Messages that the retention of {topic} deletes "
        "before they are read are lost.",
        remedy,
    )


def _slow(
    observed: Observation, head: Component, view: ComponentView, own: _Late | None, sources: list[_Late]
) -> Finding:
    """A bolt that is busy all the time: because of one task, or because each execute takes long."""
    slowest = _slowest(observed, head)
    shown = observed.components[slowest]["execute_latency"] or {}
    took = f"; execute takes {_ms(shown['p50'])} ms, and {_ms(shown['p99'])} ms at p99" if shown else ""
    busy = f"is busy for {100 * _busy(observed, view):.0f} % of the time{took}"
    is_too_late = own is not None and own.needs_s > own.timeout_s
    if own is not None:
        effect = f" It has {own.words.format('records')}, and their trees time out after {own.timeout_s:g} s."
    else:
        late = max(sources, key=lambda each: each.change.after)
        effect = (
            f" The source {late.change.topic}, partition {late.change.partition}, grows by "
            f"{_rate(late.change.growth)} messages a second, to {late.change.after:,}."
        )
    severity = Severity.PROBLEM if is_too_late else Severity.WARNING
    if (hot := _hot_task(view)) is not None:
        task, share = hot
        return Check("skew", head.name, component=head.name).finding(
            severity,
            f"Task {task} of bolt {head.name} has {100 * share:.0f} % of the tuples of its {head.tasks} tasks: one "
            f"key, or a few, make it slow. It {busy}.{effect}",
            "More processes do not help. Group by a finer key, by partial_key_grouping if partial results can be "
            "added, or aggregate before it in a chained bolt.",
        )
    named = slowest if slowest != head.name else observed.with_chained(head)
    begin = f"Bolt {slowest}, chained to {head.name}," if slowest != head.name else named
    return Check("slow", slowest, component=slowest).finding(
        severity,
        f"{begin} {busy}: it cannot do more.{effect}",
        f"See what execute waits for, such as a slow service: {_faster(observed.components[slowest])}. Or "
        f"{_more(head, view)}.",
    )


def _busy(observed: Observation, view: ComponentView) -> float:
    """The share of the time for which a bolt executes, with the call that runs."""
    return min(1.0, (view["busy"] or 0.0) + view["execute_seconds"] / observed.snapshot["window_seconds"])


def _hot_task(view: ComponentView) -> tuple[int, float] | None:
    """The task of a bolt that has most of its tuples or of its lag, and its share; None if they differ little."""
    lags = {load["task"]: load["lag"] or 0 for load in view["loads"]}
    rates = {load["task"]: load["executed_per_second"] or 0.0 for load in view["loads"]}
    is_skewed = (view["skew"] or 0.0) >= SKEW
    for counts in (rates,) if is_skewed else (lags,):
        total, hot = sum(counts.values()), max(counts, key=lambda task: counts[task], default=-1)
        if len(counts) > 1 and total >= (1 if is_skewed else FEW) and counts[hot] * len(counts) >= SKEW * total:
            return hot, counts[hot] / total
    return None


def _slowest(observed: Observation, head: Component) -> str:
    """The component, or the bolt chained to it, whose calls take most of the time."""
    names = [head.name, *(bolt.name for bolt in observed.manifest.chained_to(head.name))]

    def took(name: str) -> float:
        view = observed.components[name]
        return (view["execute_latency"] or {}).get("p50", 0.0) * (view["executed_per_second"] or 0.0)

    return max(names, key=took)


def _late(observed: Observation, topic: str, growing_s: float | None = None) -> _Late | None:
    """The lag of a topic that takes longest, if that is longer than the message timeout of its trees.

    If it grows, it is one from `growing_s` on.
    """
    bolts = [bolt.name for bolt in observed.manifest.inboxes if tuples_topic(observed.topology, bolt.name) == topic]
    spouts = observed.manifest.spouts_upstream(bolts[0]) if bolts else []
    timeout_s = min((spout.timeout_ms for spout in spouts or observed.manifest.spouts), default=0) / 1000
    moving = [each for each in _unread_lags(observed) if each.topic == topic and each.rate and _lasts(each)]
    slowest = max(moving, key=lambda each: each.after / each.rate, default=None)
    if slowest is None:
        return None
    needs_s = slowest.after / slowest.rate
    is_growing = growing_s is not None and slowest.growth > 0 and needs_s > growing_s
    return _Late(slowest, needs_s, timeout_s) if needs_s > timeout_s or is_growing else None


def _grown(observed: Observation, spout: str) -> _Late | None:
    """The lag of a source of a spout that grows, if it takes longer than the message timeout."""
    group = component_group(observed.topology, spout)
    own = tuples_topic(observed.topology, ""), acks_topic(observed.topology)
    growing = [
        each
        for each in _unread_lags(observed)
        if each.group == group and not each.topic.startswith(own) and each.rate and each.growth > 0 and _lasts(each)
    ]
    slowest = max(growing, key=lambda each: each.after / each.rate, default=None)
    timeout_s = next((each.timeout_ms for each in observed.manifest.spouts if each.name == spout), 0) / 1000
    if slowest is None or slowest.after / slowest.rate <= timeout_s:
        return None
    return _Late(slowest, slowest.after / slowest.rate, timeout_s)


def _standing(observed: Observation, topic: str) -> list[LagChange]:
    """The partitions of a topic with a lag and without any progress.

    Records of the last seconds may just not be done yet.
    """
    return [each for each in _unread_lags(observed) if each.topic == topic and each.done == 0 and each.before]


def _lasts(each: LagChange) -> bool:
    """Whether a lag is more than a few records that have just come: where few come, few are done."""
    return each.before > 0 or each.after > FEW


def _stands(observed: Observation, check: Check, lag_changes: list[LagChange]) -> Finding:
    worst = max(lag_changes, key=lambda each: each.after)
    tasks = ", ".join(str(each.partition) for each in lag_changes)
    trace = ""
    if observed.manifest.acking:
        trace = f" To see whether it did not ack one: acker trace --oldest 1 --topology {observed.topology}."
    return check.warning(
        f"Group {worst.group} has made no progress in {worst.topic}, partition {tasks}, for {worst.seconds:.1f} s; "
        f"the lag of partition {worst.partition} is {worst.after:,} records.",
        "See whether the process hangs, is starting, or holds its tuples, as a windowed bolt does: acker top, and its "
        f"log.{trace}",
    )


def _unread_lags(observed: Observation) -> Iterator[LagChange]:
    """The lags of groups with members, without the records that components report as read."""
    for each in observed.lag_changes:
        unread = _unread(observed, each)
        if unread.after and observed.members.get(each.group) != 0:
            yield unread


def _unread(observed: Observation, each: LagChange) -> LagChange:
    """A lag without the records that the component reports as read: committed offsets stop at open inputs.

    A window may hold its inputs, and with them the trees of a spout, for longer than the lag is watched.
    """
    component = observed.readers.get(each.group)
    view = None if component is None else observed.components[component.name]
    if component is None or view is None or not view["processes"]:
        return each
    if component.kind == "spout":
        open_trees = view["pending"] or 0
        return replace(each, before=max(0, each.before - open_trees), after=max(0, each.after - open_trees))
    done = each.done
    if view["oldest_input_seconds"] >= each.seconds:
        # Each record has a tuple at least, so it would take even longer for them.
        done = max(done, round((view["executed_per_second"] or 0.0) * each.seconds))
    most = each.after if view["unread"] is None else view["unread"]
    return replace(each, before=min(each.before, most), after=min(each.after, most), done=done)


def has_explained_lag(observed: Observation, bolt: str) -> bool:
    """Whether a bolt holds inputs, restores a state, or is in a long call, which are findings of their own."""
    view = observed.components[bolt]
    state = view["state"]
    restores = state is not None and state["restore"] is not None
    return is_forgotten(observed, bolt) or restores or view["execute_seconds"] > 0


def _ms(latency: float) -> str:
    return f"{latency:,.0f}" if latency >= 100 else f"{latency:.2g}"


def _rate(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"
