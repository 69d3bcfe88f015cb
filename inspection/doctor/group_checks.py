"""Checks of a topology's consumer groups: their members and their lags."""

from collections import defaultdict
from collections.abc import Iterator

from inspection.doctor.facts import Backlog, TopologyFacts
from inspection.doctor.findings import Check, Finding
from tuple_tree.manifest import Manifest
from tuple_tree.names import acker_group, acks_topic, component_group, tuples_topic


def check_idle(facts: TopologyFacts) -> Iterator[Finding]:
    """The topology runs; not checked with Spark jobs, which join no group."""
    external = any(component.external for component in facts.manifest.components)
    if facts.members and not external and not _is_running(facts) and None not in facts.members.values():
        waiting = sum(backlog.after for backlog in facts.backlogs if backlog.is_waiting)
        topology = facts.manifest.topology
        yield Check("groups", topology).warning(
            f"Topology {topology} is not running: no process runs any of its components; lag {waiting:,} records.",
            f"Start it: acker run MODULE:TOPOLOGY and acker worker; or delete it: acker topologies delete {topology}.",
        )


def check_ackers(facts: TopologyFacts) -> Iterator[Finding]:
    """There is an acker worker if there are spouts or bolts."""
    topology, group = facts.manifest.topology, acker_group(facts.manifest.topology)
    if not facts.manifest.acking or facts.members.get(group) != 0:
        return
    remedy = f"Start one: acker worker, or acker worker --topology {topology}."
    if _is_running(facts):
        yield Check("ackers", topology).problem(
            f"Topology {topology} has running spouts or bolts, but no acker worker: no tree completes, and spouts "
            "stop at max_spout_pending.",
            remedy,
        )
    elif any(component.external for component in facts.manifest.components):
        yield Check("ackers", topology).warning(
            f"Topology {topology} has no acker worker: if its Spark jobs run, which the doctor cannot know, no tree "
            "completes.",
            remedy,
        )


def check_groups(facts: TopologyFacts) -> Iterator[Finding]:
    """Every component has a process, if the topology runs at all."""
    manifest = facts.manifest
    for component in manifest.components:
        group = component_group(manifest.topology, component.name)
        # External components, such as Spark jobs, join no group.
        if component.external or group not in facts.members:
            continue
        members = facts.members[group]
        if members is None:
            yield Check("groups", group).note(
                f"Group {group} has no DESCRIBE ACL for this user, so it is not known whether it has members.",
                "Allow Describe for groups that begin with the topology's name.",
            )
        elif members == 0 and _is_running(facts):
            waiting = sum(each.after for each in facts.backlogs if each.group == group and each.is_waiting)
            yield Check("groups", group).problem(
                f"Group {group} has no members: no process runs {component.kind} {component.name}, while others of "
                f"the topology run; lag {waiting:,} records.",
                f"Start it: acker run MODULE:TOPOLOGY --component {component.name}.",
            )


def check_inputs(facts: TopologyFacts) -> Iterator[Finding]:
    """Bolts ack or fail their inputs within a message timeout."""
    for bolt in facts.manifest.bolts:
        if (found := _forgotten(facts, bolt.name)) is not None:
            place, seconds = found
            inbox, _, offset = place.rpartition(" offset ")
            task = inbox.rpartition("[")[2].removesuffix("]")
            topology = facts.manifest.topology
            yield Check("inputs", bolt.name).warning(
                f"Bolt {bolt.name} has neither acked nor failed {place} for {seconds:,.0f} s. Its group commits "
                "nothing behind it, so later inputs count as lag though they may be done, and a restart executes them "
                "again.",
                "If it has windows: those by event time or by count hold inputs until newer ones come; does its source "
                "pause, or one of its streams? Any other bolt has to ack or fail each input. Its trees: acker trace "
                f"--tuple {bolt.name}/{task}@{offset} --topology {topology}.",
            )


def _forgotten(facts: TopologyFacts, bolt: str) -> tuple[str, float] | None:
    """The oldest open input of a bolt, if it is open for longer than a message timeout."""
    place, seconds = facts.oldest_inputs.get(bolt, ("", 0.0))
    limit_ms = min((spout.timeout_ms for spout in facts.manifest.spouts), default=0)
    return (place, seconds) if place and seconds * 1000 > limit_ms else None


def check_backlogs(facts: TopologyFacts) -> Iterator[Finding]:
    """Lag is processed before its trees time out."""
    of_topic: dict[tuple[str, str], list[Backlog]] = defaultdict(list)
    for backlog in facts.backlogs:
        if backlog.after and backlog.is_waiting and facts.members.get(backlog.group) != 0:
            of_topic[backlog.group, backlog.topic].append(backlog)
    # The groups of spouts commit offsets of their sources.
    sources = {component_group(facts.manifest.topology, spout.name) for spout in facts.manifest.spouts}
    for (group, topic), backlogs in of_topic.items():
        if group in sources:
            yield from _falling_behind(facts.manifest, group, topic, backlogs)
            continue
        # Records of the last seconds may just not be done yet.
        standing = [each for each in backlogs if each.done == 0 and each.before]
        forgetful = any(
            group == component_group(facts.manifest.topology, bolt.name) and _forgotten(facts, bolt.name) is not None
            for bolt in facts.manifest.bolts
        )
        if standing and not forgetful:
            yield _standing(facts.manifest, group, topic, standing)
        moving = [each for each in backlogs if each.rate]
        if moving:
            slowest = max(moving, key=lambda each: each.after / each.rate)
            yield from _slow(facts.manifest, slowest)


def _standing(manifest: Manifest, group: str, topic: str, backlogs: list[Backlog]) -> Finding:
    worst = max(backlogs, key=lambda each: each.after)
    tasks = ", ".join(str(each.partition) for each in backlogs)
    trace = ""
    if manifest.acking:
        trace = f" To see whether it did not ack one: acker trace --oldest 1 --topology {manifest.topology}."
    return Check("lag", group).warning(
        f"Group {group} has done nothing of {topic}, partition {tasks}, in {worst.seconds:.1f} s, though the lag of "
        f"partition {worst.partition} is {worst.after:,} records.",
        "See whether the process hangs, is starting, or holds its tuples, as a windowed bolt does: acker top, and its "
        f"log.{trace}",
    )


def _falling_behind(manifest: Manifest, group: str, topic: str, backlogs: list[Backlog]) -> Iterator[Finding]:
    """A spout whose lag grows, and takes longer than a message timeout.

    Its committed offset stops at its oldest open tree, so no progress is no fault.
    """
    timeout_s = min(spout.timeout_ms for spout in manifest.spouts) / 1000
    growing = [each for each in backlogs if each.rate and each.after > each.before]
    if not growing:
        return
    slowest = max(growing, key=lambda each: each.after / each.rate)
    needs_s = slowest.after / slowest.rate
    if needs_s > timeout_s:
        yield Check("lag", group).warning(
            f"Group {group} has a lag of {slowest.after:,} messages of {topic}, partition {slowest.partition}, and "
            f"does {slowest.rate:,.0f} a second: it needs {needs_s:,.0f} s for them; it grows. Messages that the "
            f"retention of {topic} deletes before they are read are lost.",
            "See in acker top which bolt is behind, and start more processes or declare more tasks for it; or raise "
            "max_spout_pending.",
        )


def _slow(manifest: Manifest, backlog: Backlog) -> Iterator[Finding]:
    if not manifest.acking:
        return
    timeout_s = _timeout_ms(manifest, backlog.topic) / 1000
    needs_s = backlog.after / backlog.rate
    if needs_s <= timeout_s:
        return
    lag = (
        f"Group {backlog.group} has a lag of {backlog.after:,} records of {backlog.topic}, partition "
        f"{backlog.partition}, and does {backlog.rate:,.0f} a second: it needs {needs_s:,.0f} s for them, "
    )
    if backlog.topic == acks_topic(manifest.topology):
        yield Check("lag", backlog.group).warning(
            f"{lag}and the message timeout is {timeout_s:g} s. No tree fails because of that, but spouts get "
            "outcomes so much later, and wait at max_spout_pending.",
            "Start more acker workers, up to one for each ack partition.",
        )
        return
    grows = "; it grows" if backlog.after > backlog.before else ""
    yield Check("lag", backlog.group).problem(
        f"{lag}but their trees time out after {timeout_s:g} s and are replayed, which makes it longer{grows}.",
        "Start more processes or declare more tasks for the bolt, make it faster, lower max_spout_pending, or raise "
        "the message timeout.",
    )


def _timeout_ms(manifest: Manifest, topic: str) -> int:
    """The shortest message timeout, in milliseconds, of the spouts whose trees reach a topic."""
    bolts = [bolt.name for bolt in manifest.bolts if tuples_topic(manifest.topology, bolt.name) == topic]
    spouts = manifest.spouts_upstream(bolts[0]) if bolts else []
    return min(spout.timeout_ms for spout in spouts or manifest.spouts)


def _is_running(facts: TopologyFacts) -> bool:
    """Whether any component has a process; acker workers may serve other topologies, so they do not count."""
    topology = facts.manifest.topology
    groups = [component_group(topology, component.name) for component in facts.manifest.components]
    return any(facts.members.get(group) for group in groups)
