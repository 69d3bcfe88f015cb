"""Checks of the processes of a topology: whether they run, own all tasks, make progress, and agree on the time."""

from collections.abc import Iterator

from inspection.health.findings import Check, Finding
from inspection.health.limits import CLOCK_LAG_SECONDS, CLOCK_SECONDS, STALLED_SECONDS, STARTING_SECONDS
from inspection.health.observation import Observation
from inspection.notation import counted
from tuple_tree.components import Component
from tuple_tree.names import acker_group, component_group
from tuple_tree.pages import page

_DISK = ("No space left on device", "ENOSPC", "disk full", "Disk quota exceeded", "disk error")
_NO_PROGRESS = "alerts.md#nothingprogresses"
_ACCESS = ("ACL", "authoriz", "may not be", "Authorization")


def check_cluster(observed: Observation) -> Iterator[Finding]:
    """The brokers answer."""
    if observed.problem:
        yield Check("cluster", observed.topology).problem(
            f"The lags of {observed.topology} cannot be read: {observed.problem}",
            "Check the brokers: are they up, can they be reached, and have their disks room? Processes continue by "
            "themselves when they answer.",
        )


def check_idle(observed: Observation) -> Iterator[Finding]:
    """The topology runs; not checked with Spark jobs, which join no group."""
    known = observed.members or observed.snapshot["at"]
    refused = None in observed.members.values()
    if not known or observed.has_external or observed.is_running or refused or _ended(observed):
        return
    lag = sum(each.after for each in observed.lag_changes)
    topology = observed.topology
    yield Check("groups", topology).warning(
        f"Topology {topology} is not running: no process runs any of its components; lag {counted(lag, 'record')}.",
        f"Start it: acker run MODULE:TOPOLOGY and acker worker; or delete it: acker topologies delete {topology}.",
    )


def check_ackers(observed: Observation) -> Iterator[Finding]:
    """There is an acker worker if there are spouts or bolts, and each partition of the ack log has an owner."""
    manifest, topology = observed.manifest, observed.topology
    if not manifest.acking:
        return
    no_tree = "no tree completes"
    if manifest.has_chained_spouts:
        no_tree = "no tree that leaves the chain of its spout completes"
    check = Check("ackers", topology)
    remedy = f"Start one: acker worker, or acker worker --topology {topology}."
    ackers = observed.ackers
    if ackers == 0 and observed.is_running and (observed.members or _is_settled(observed)):
        yield check.problem(
            f"Topology {topology} has running spouts or bolts, but no acker worker: {no_tree}, and spouts stop at "
            "max_spout_pending.",
            remedy,
        )
    elif ackers == 0 and observed.members and not observed.is_running and observed.has_external:
        yield check.warning(
            f"Topology {topology} has no acker worker: if its Spark jobs run, which the doctor cannot check, "
            f"{no_tree}.",
            remedy,
        )
    workers = observed.snapshot["workers"]
    unowned = [one["partition"] for one in observed.snapshot["acker"] if one["owner"] is None]
    if workers and unowned and min(each["uptime_seconds"] for each in workers) >= STARTING_SECONDS:
        yield check.problem(
            f"No acker worker owns partition {_listed(unowned)} of the ack log of {topology}: trees there are neither "
            "acked nor failed.",
            "Read the logs of the acker workers: one that ends again and again logs the reason in one line.",
        )
    slowest = max(observed.snapshot["acker"], key=lambda one: one["clock_lag_seconds"] or 0.0, default=None)
    if slowest is not None and (lag := slowest["clock_lag_seconds"] or 0.0) > CLOCK_LAG_SECONDS:
        yield check.warning(
            f"Acker worker {slowest['owner']} is {lag:,.0f} s behind in partition {slowest['partition']} of the ack "
            f"log of {topology}: outcomes reach spouts that much later, but no tree fails.",
            "Start more acker workers, up to one for each ack partition.",
        )


def check_groups(observed: Observation) -> Iterator[Finding]:
    """Every component has a process, if the topology runs at all; chained bolts run in the processes of their head."""
    ended = _ended(observed)
    for head in observed.manifest.heads:
        # External components, such as Spark jobs, join no group.
        if not head.external:
            yield from _check_group(observed, head, is_expected=observed.is_running or bool(ended))


def _check_group(observed: Observation, head: Component, *, is_expected: bool) -> Iterator[Finding]:
    group, view = component_group(observed.topology, head.name), observed.components[head.name]
    if observed.members and group not in observed.members:
        return
    processes, named = observed.processes(head.name), observed.with_chained(head)
    check, runs = Check("groups", group, component=head.name), named[0].lower() + named[1:]
    if processes is None:
        yield check.note(
            f"Group {group} has no DESCRIBE ACL for this user, so it is not known whether it has members.",
            "Allow Describe for groups that begin with the topology's name.",
        )
        return
    youngest = view["youngest_seconds"]
    why = view["ended_by"]
    is_young, times = youngest is not None and youngest < STARTING_SECONDS, view["ended_times"]
    # A process that works after its start is no problem; one that is started again and ends again is.
    if why and (processes == 0 or not view["owned_tasks"] or (is_young and times > 1)):
        ago = f"{view['ended_seconds_ago'] or 0.0:,.0f} s ago"
        ended = f"ended {ago}" if times < 2 else f"ended {times} times in the last minute, the last time {ago}"
        yield check.problem(
            f"The process of {runs} has {ended}, by an error: {why}",
            _ended_remedy(head.name, why),
        )
    elif processes == 0 and is_expected and not view["execute_seconds"]:
        lag = observed.lag(group)
        begin = f"Group {group} has no members: no process" if observed.members else "No process"
        yield check.problem(
            f"{begin} runs {runs}, while others of the topology run; lag {counted(lag, 'record')}.",
            f"Start it: acker run MODULE:TOPOLOGY --component {head.name}.",
        )
    elif not observed.members and processes and not is_young and (left := head.tasks - view["owned_tasks"]) > 0:
        yield check.problem(
            f"Of {head.tasks} tasks of {runs}, {left} without a process: their records wait.",
            f"Start more processes: acker run MODULE:TOPOLOGY --component {head.name}; if running "
            "ones own no task, their logs have the reason.",
        )


def check_stalled(observed: Observation) -> Iterator[Finding]:
    """Every process makes progress if there is work."""
    for name, view in observed.components.items():
        # A call that does not return is another finding.
        if view["stalled_seconds"] > STALLED_SECONDS and view["stalled_by"] and not view["execute_seconds"]:
            yield Check("stalled", name, component=name).problem(
                f"{view['kind'].capitalize()} {name} has made no progress for {view['stalled_seconds']:,.0f} s: "
                f"{view['stalled_by']}.",
                f"See {page(_NO_PROGRESS)}. Its log has more; its oldest tree: acker trace --oldest 1 "
                f"--topology {observed.topology}.",
            )
    for worker in observed.snapshot["workers"]:
        yield from check_worker(observed.topology, worker["name"], worker["stalled_seconds"], worker["stalled_by"])


def check_worker(topology: str, name: str, stalled_seconds: float, stalled_by: str) -> Iterator[Finding]:
    """An acker worker makes progress if there is work; `stalled_by` is what it does not do."""
    if stalled_seconds > STALLED_SECONDS:
        yield Check("stalled", acker_group(topology)).problem(
            f"Acker worker {name} has made no progress for {stalled_seconds:,.0f} s: {stalled_by}.",
            "Check the brokers: too few in-sync replicas, a full disk, or a transaction that hangs. See "
            f"{page(_NO_PROGRESS)}.",
        )


def check_clocks(observed: Observation) -> Iterator[Finding]:
    """The clocks of the processes and of the brokers hardly differ."""
    for host, ahead in sorted(observed.snapshot["clocks"].items()):
        if abs(ahead) > CLOCK_SECONDS:
            where = "behind" if ahead > 0 else "ahead of"
            yield Check("clock", host).warning(
                f"The clock of {host} is {abs(ahead):,.1f} s {where} that of the brokers. Timeouts do not depend on "
                "it; the times of messages that its processes write do, and with them retention, windows by event "
                "time, and searches by time.",
                f"Let an NTP service set the clocks of {host} and of the brokers.",
            )


def _ended(observed: Observation) -> list[str]:
    """Components with a process that has ended by an error in the last minute."""
    return [name for name, view in observed.components.items() if view["ended_by"]]


def _ended_remedy(component: str, why: str) -> str:
    if any(word in why for word in _DISK):
        return (
            "Free space on the disk of its host: state.directory has the stores of states. It is started again, and "
            "reads again what was not committed."
        )
    if any(word in why for word in _ACCESS):
        return f"Add the ACL: acker topics acls MODULE:TOPOLOGY --role {component} prints the ACLs that it needs."
    return "Fix the cause: its log has the traceback. It is started again, and reads again what was not committed."


def _is_settled(observed: Observation) -> bool:
    """Whether the processes are not just being started, each after the other."""
    return all(
        youngest >= STARTING_SECONDS
        for each in observed.components.values()
        if (youngest := each["youngest_seconds"]) is not None
    )


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers))
