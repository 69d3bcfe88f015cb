"""The doctor's checks, each a function, in the order of their findings; those of topics are in `topic_checks`."""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from inspection.doctor.facts import Backlog, Check, ComponentReport, Facts, Finding, Severity, TopologyFacts, timeout_s
from inspection.doctor.state_checks import check_identities, check_restores
from inspection.doctor.topic_checks import OF_TOPICS, check_single_copies
from tuple_tree.components import Component
from tuple_tree.manifest import Manifest
from tuple_tree.names import acker_group, acks_topic, component_group, tuples_topic
from tuple_tree.timing import EXECUTING

LARGEST_SKEW_SECONDS: Final = 2.0  # how far clocks may differ without a finding

_NOTHING: Final = ComponentReport(processes=0)

_OLDEST: Final = (2, 8)
"""From here on topics have ids, which distinguish a topic from a deleted one of the same name."""
_OLDEST_FOR_TRANSACTIONS: Final = (2, 5)
"""From here on a transaction that commits offsets is fenced by the group's generation."""


def check_java(facts: Facts) -> Iterator[Finding]:
    """Java is installed where the embedded broker or a Spark job needs it."""
    if not facts.java_problem:
        return
    external = sorted(
        f"{topology.manifest.topology}.{part.name}"
        for topology in facts.topologies
        for part in topology.manifest.components
        if part.external
    )
    if not facts.servers:
        severity, needs = Severity.PROBLEM, "no Kafka cluster is set, and the embedded broker needs it"
    elif external:
        severity, needs = Severity.WARNING, f"Spark jobs need it where they are submitted: {', '.join(external)}"
    else:
        severity, needs = Severity.NOTE, "only acker kafka, acker demo, acker run --local and Spark jobs need it"
    yield Finding(severity, "java", "java", f"no Java that can be used: {needs}.", facts.java_problem)


def check_cluster(facts: Facts) -> Iterator[Finding]:
    """A cluster is set, and answers."""
    if not facts.servers:
        severity = Severity.NOTE if facts.wanted is None else Severity.PROBLEM
        yield Finding(
            severity,
            "cluster",
            "cluster",
            "No Kafka cluster is set, so only this machine was checked.",
            "Set --bootstrap-servers or ACKER_KAFKA__BOOTSTRAP_SERVERS; acker kafka starts a broker.",
        )
    elif facts.problem:
        yield Finding(Severity.PROBLEM, "cluster", facts.servers, "The cluster could not be checked.", facts.problem)


def check_version(facts: Facts) -> Iterator[Finding]:
    """The brokers are new enough."""
    numbers = _numbers(facts.version or "")
    exactly_once = [each.manifest.topology for each in facts.topologies if each.manifest.has_transactions]
    if numbers is None or numbers >= _OLDEST:
        return
    if numbers < _OLDEST_FOR_TRANSACTIONS and exactly_once:
        yield Check("version", facts.servers).problem(
            f"The brokers speak the protocol of Kafka {facts.version}, whose transactions do not fence a process "
            f"that the group has removed: {', '.join(exactly_once)} would not be exactly once.",
            "Upgrade them to 2.5 or newer, and raise inter.broker.protocol.version.",
        )
        return
    yield Check("version", facts.servers).warning(
        f"The brokers speak the protocol of Kafka {facts.version}, in which topics have no ids: a topic that was "
        "deleted and created again is not recognised.",
        "Upgrade them to 2.8 or newer, and raise inter.broker.protocol.version.",
    )


def check_clock(facts: Facts) -> Iterator[Finding]:
    """This machine's clock and that of the brokers hardly differ."""
    least, most = facts.clock or (0.0, 0.0)
    if least > LARGEST_SKEW_SECONDS:
        where, by = "ahead of", least
    elif most < -LARGEST_SKEW_SECONDS:
        where, by = "behind", -most
    else:
        return
    yield Check("clock", facts.servers).warning(
        f"The brokers' clock is at least {by:.1f} s {where} this machine's. Trees do not depend on that, since only "
        "the brokers' time counts for them; searches by time do.",
        "Let an NTP service set the clocks of this machine and of the brokers.",
    )


def check_published(facts: Facts) -> Iterator[Finding]:
    """The topology is published, and manifests can be read."""
    for topology, why in sorted(facts.unreadable.items()):
        yield Check("manifest", topology).problem(
            f"Its manifest cannot be read: {why}.", "Publish it with this version: acker topics create MODULE:TOPOLOGY."
        )
    if not facts.servers or facts.problem or facts.wanted is None:
        return
    if facts.wanted not in facts.published:
        there = ", ".join(facts.published) or "none yet"
        yield Check("manifest", facts.wanted).problem(
            f"No topology of that name is in acker.topologies; the cluster has {there}.",
            "Check the name, or create it: acker topics create MODULE:TOPOLOGY.",
        )


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
    no_tree = "no tree completes"
    if facts.manifest.has_chained_spouts:
        no_tree = "no tree that leaves the chain of its spout completes"
    if not facts.manifest.acking or facts.members.get(group) != 0:
        return
    remedy = f"Start one: acker worker, or acker worker --topology {topology}."
    if _is_running(facts):
        yield Check("ackers", topology).problem(
            f"Topology {topology} has running spouts or bolts, but no acker worker: {no_tree}, and spouts stop at "
            "max_spout_pending.",
            remedy,
        )
    elif any(component.external for component in facts.manifest.components):
        yield Check("ackers", topology).warning(
            f"Topology {topology} has no acker worker: if its Spark jobs run, which the doctor cannot check, "
            f"{no_tree}.",
            remedy,
        )


def check_groups(facts: TopologyFacts) -> Iterator[Finding]:
    """Every component has a process, if the topology runs at all; chained bolts run in the processes of their head."""
    manifest = facts.manifest
    for component in manifest.heads:
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
        elif members == 0 and _is_running(facts) and not facts.reports.get(component.name, _NOTHING).executes_since:
            waiting = sum(each.after for each in facts.backlogs if each.group == group and each.is_waiting)
            runs = _with_chained(manifest, component)
            yield Check("groups", group).problem(
                f"Group {group} has no members: no process runs {runs}, while others of the topology run; lag "
                f"{waiting:,} records.",
                f"Start it: acker run MODULE:TOPOLOGY --component {component.name}.",
            )


def check_inputs(facts: TopologyFacts) -> Iterator[Finding]:
    """Bolts ack or fail their inputs within a message timeout; chained bolts report no inputs."""
    for bolt in facts.manifest.inboxes:
        if (found := _forgotten(facts, bolt.name)) is not None:
            place, seconds = found
            topology = facts.manifest.topology
            inbox, _, offset = place.rpartition(" offset ")
            task = inbox.rpartition("[")[2].removesuffix("]")
            yield Check("inputs", bolt.name).warning(
                f"{_begin(facts.manifest, bolt)} has neither acked nor failed {place} for {seconds:,.0f} s. The "
                "offset of its group stays there; what is done behind it is in the metadata of the commit.",
                "If it has windows: those by event time or by count hold inputs until newer ones come; does its source "
                "pause, or one of its streams? Any other bolt has to ack or fail each input. Its trees: acker trace "
                f"--tuple {bolt.name}/{task}@{offset} --topology {topology}.",
            )


def check_held(facts: TopologyFacts) -> Iterator[Finding]:
    """Messages of a spout's source do not fail again and again."""
    for held in facts.held:
        age = "" if held.age_seconds is None else f" and is {held.age_seconds:,.0f} s old"
        failed = f"has failed {held.failures:,} times{age}" if held.failures else f"is open{age}"
        yield Check("open-messages", held.group).warning(
            f"{held.topic}[{held.partition}] offset {held.offset} {failed}: the offset of group {held.group} stays "
            f"there. {held.done_behind:,} messages behind it are done, and with it {held.open_behind:,} are open.",
            "The log of the bolt that fails it has the reason. With max_retries its spout makes a dead letter of it.",
        )


def _with_chained(manifest: Manifest, head: Component) -> str:
    """Names a component and the bolts that run in its tasks, for use in a sentence."""
    chained = [bolt.name for bolt in manifest.chained_to(head.name)]
    named = f"{head.kind} {head.name}"
    return f"{named} with {', '.join(chained)}, chained to it" if chained else named


def _begin(manifest: Manifest, head: Component) -> str:
    words = _with_chained(manifest, head)
    return words[0].upper() + words[1:]


def _forgotten(facts: TopologyFacts, bolt: str) -> tuple[str, float] | None:
    """The oldest open input of a bolt, if it is open for longer than a message timeout."""
    report = facts.reports.get(bolt, _NOTHING)
    place, seconds = report.oldest_input, report.oldest_input_seconds
    # While an execute runs, nothing is acked.
    is_late = seconds > timeout_s(facts.manifest, bolt) and not report.executes_since
    return (place, seconds) if place and is_late else None


def check_executes(facts: TopologyFacts) -> Iterator[Finding]:
    """No call of `execute` takes longer than a message timeout."""
    for head in facts.manifest.heads:
        report = facts.reports.get(head.name, _NOTHING)
        if report.executes_since > timeout_s(facts.manifest, head.name):
            where = report.stalled_by.removeprefix(EXECUTING).lstrip(", ")
            yield Check("execute", head.name).problem(
                f"{_begin(facts.manifest, head)}: one execute has been running for {report.executes_since:,.0f} s, "
                f"{where}. Its process executes nothing else, and the trees that wait for it fail at max_tree_age.",
                "See what it waits for: py-spy dump --pid PID on its host, and its log. It ends by itself at "
                "max.poll.interval.ms. Emit smaller pieces of work, wait in an AsyncBolt, or raise message_timeout.",
            )


def check_failing(facts: TopologyFacts) -> Iterator[Finding]:
    """Bolts ack some of their inputs."""
    for bolt in facts.manifest.bolts:
        report = facts.reports.get(bolt.name, _NOTHING)
        if report.failing:
            error = f" The last exception: {report.last_error}." if report.last_error else ""
            topology = facts.manifest.topology
            yield Check("failures", bolt.name).problem(
                f"Bolt {bolt.name} fails all its tuples, {report.failed_per_second:,.1f} a second, and acks none: "
                f"their trees are replayed again and again.{error}",
                "Fix the cause: its log has the traceback with topic, partition, offset and roots. Which trees: acker "
                f"trace --last-failed 3 --topology {topology}.",
            )


def check_backlogs(facts: TopologyFacts) -> Iterator[Finding]:
    """Lag is processed before its trees time out."""
    of_topic: dict[tuple[str, str], list[Backlog]] = defaultdict(list)
    for backlog in _unread(facts):
        if backlog.after and backlog.is_waiting and facts.members.get(backlog.group) != 0:
            of_topic[backlog.group, backlog.topic].append(backlog)
    # The groups of spouts commit offsets of their sources.
    manifest = facts.manifest
    spouts = {component_group(manifest.topology, spout.name) for spout in manifest.spouts}
    explained = {
        component_group(manifest.topology, manifest.head(bolt.name).name)
        for bolt in manifest.bolts
        for report in [facts.reports.get(bolt.name, _NOTHING)]
        if _forgotten(facts, bolt.name) or report.executes_since or report.restores
    }
    for (group, _), backlogs in of_topic.items():
        # Records of the last seconds may just not be done yet. The offset of a spout stops at its oldest open tree.
        standing = [each for each in backlogs if each.done == 0 and each.before]
        if standing and group not in explained | spouts:
            yield _standing(manifest, standing)
        moving = [each for each in backlogs if each.rate and (group not in spouts or each.after > each.before)]
        if moving and (manifest.acking or group in spouts):
            yield from _slow(manifest, max(moving, key=lambda each: each.after / each.rate), of_source=group in spouts)


def _unread(facts: TopologyFacts) -> Iterator[Backlog]:
    """The backlogs, as far as components report it without what they have read: committed offsets stop at what is open.

    A window may hold its inputs, and with them the trees of a spout, for longer than the doctor watches.
    """
    for each in facts.backlogs:
        component = next(
            (
                one
                for one in facts.manifest.heads
                if one.name in facts.reports and component_group(facts.manifest.topology, one.name) == each.group
            ),
            None,
        )
        if component is None:
            yield each
            continue
        report = facts.reports[component.name]
        if component.kind == "spout":
            before, after = (max(0, lag - report.pending) for lag in (each.before, each.after))
            yield replace(each, before=before, after=after)
            continue
        done = each.done
        if report.oldest_input_seconds >= each.seconds:
            # Each record has a tuple at least, so it would take even longer for them.
            done = max(done, round(report.executed_per_second * each.seconds))
        most = each.after if report.unread is None else report.unread
        yield replace(each, before=min(each.before, most), after=min(each.after, most), done=done)


def _standing(manifest: Manifest, backlogs: list[Backlog]) -> Finding:
    worst = max(backlogs, key=lambda each: each.after)
    tasks = ", ".join(str(each.partition) for each in backlogs)
    trace = ""
    if manifest.acking:
        trace = f" To see whether it did not ack one: acker trace --oldest 1 --topology {manifest.topology}."
    return Check("lag", worst.group).warning(
        f"Group {worst.group} has done nothing of {worst.topic}, partition {tasks}, in {worst.seconds:.1f} s, though "
        f"the lag of partition {worst.partition} is {worst.after:,} records.",
        "See whether the process hangs, is starting, or holds its tuples, as a windowed bolt does: acker top, and its "
        f"log.{trace}",
    )


def _slow(manifest: Manifest, slowest: Backlog, *, of_source: bool) -> Iterator[Finding]:
    """A lag that takes longer than the shortest message timeout of the spouts whose trees reach the topic."""
    topic, check = slowest.topic, Check("lag", slowest.group)
    bolts = [bolt.name for bolt in manifest.inboxes if tuples_topic(manifest.topology, bolt.name) == topic]
    spouts = manifest.spouts_upstream(bolts[0]) if bolts else []
    timeout_s = min(spout.timeout_ms for spout in spouts or manifest.spouts) / 1000
    needs_s = slowest.after / slowest.rate
    if needs_s <= timeout_s:
        return
    lag = (
        f"Group {slowest.group} has a lag of {slowest.after:,} {'messages' if of_source else 'records'} of {topic}, "
        f"partition {slowest.partition}, and does {_rate(slowest.rate)} a second: it needs {needs_s:,.0f} s for them"
    )
    if of_source:
        yield check.warning(
            f"{lag}; it grows. Messages that the retention of {topic} deletes before they are read are lost.",
            "See in acker top which bolt is behind, and start more processes or declare more tasks for it; or raise "
            "max_spout_pending.",
        )
    elif topic == acks_topic(manifest.topology):
        yield check.warning(
            f"{lag}, and the message timeout is {timeout_s:g} s. No tree fails because of that, but spouts get "
            "outcomes so much later, and wait at max_spout_pending.",
            "Start more acker workers, up to one for each ack partition.",
        )
    else:
        grows = "; it grows" if slowest.after > slowest.before else ""
        yield check.problem(
            f"{lag}, but their trees time out after {timeout_s:g} s and are replayed, which makes it longer{grows}.",
            "Start more processes or declare more tasks for the bolt, make it faster, lower max_spout_pending, or "
            "raise the message timeout.",
        )


def _rate(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"


def _is_running(facts: TopologyFacts) -> bool:
    """Whether any component has a process; acker workers may serve other topologies, so they do not count."""
    topology = facts.manifest.topology
    groups = [component_group(topology, component.name) for component in facts.manifest.heads]
    return any(facts.members.get(group) for group in groups)


def _numbers(version: str) -> tuple[int, int] | None:
    """Major and minor of a version such as `3.6-IV2`; None if it has another form."""
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else None


def examine(facts: Facts) -> list[Finding]:
    of_all = (check_java, check_cluster, check_version, check_clock, check_published)
    running = (
        check_idle,
        check_ackers,
        check_groups,
        check_executes,
        check_failing,
        check_inputs,
        check_restores,
        check_held,
        check_identities,
        check_backlogs,
    )
    of_topology = (*OF_TOPICS, *running)
    found = [finding for check in of_all for finding in check(facts)]
    found += [finding for topology in facts.topologies for check in of_topology for finding in check(topology)]
    found += [finding for topology in facts.topologies for finding in check_single_copies(topology, facts.brokers)]
    # `acker.topologies` belongs to all topologies, but is reported once.
    return sorted(dict.fromkeys(found), key=lambda finding: [*Severity].index(finding.severity))
