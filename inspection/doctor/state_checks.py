"""The doctor's checks of the states of running bolts; that of their changelogs is in `topic_checks`."""

from collections.abc import Iterator
from typing import Final

from inspection.doctor.facts import Check, Finding, TopologyFacts, timeout_s
from inspection.state_figures import StateFigures
from tuple_tree.names import component_group

_FEW_IDENTITIES: Final = 100_000
_OPEN_SECONDS: Final = 600.0
"""Seconds of execution, at the current rate. More identities than tuples in this time: messages stay open for long."""


def check_restores(facts: TopologyFacts) -> Iterator[Finding]:
    """No restore takes longer than a message timeout."""
    for bolt, state in _states(facts):
        restore = state["restore"]
        if restore is None or restore["seconds"] <= timeout_s(facts.manifest, bolt):
            continue
        tasks, done, seconds = ", ".join(map(str, restore["tasks"])), restore["done"], restore["seconds"]
        left = f", and about {seconds * (1 - done) / done:,.0f} s are left" if 0 < done < 1 else ""
        yield Check("restores", bolt).warning(
            f"Bolt {bolt} has been restoring the state of tasks {tasks} for {seconds:,.0f} s: {100 * done:.0f} % is "
            f"read, {restore['records_per_second']:,.0f} records/s{left}. These tasks execute nothing meanwhile, and "
            "the trees that wait for them time out and are replayed.",
            "If it gets further: more processes, a store on disk (state.directory), or keys that expire make it "
            "shorter. Else its log has the reason, such as a transaction of an earlier owner.",
        )


def check_identities(facts: TopologyFacts) -> Iterator[Finding]:
    """Spouts commit what is done, so that states need not keep its identities."""
    for bolt, state in _states(facts):
        kept, rate = state["identities"] or 0, facts.reports[bolt].executed_per_second
        if kept <= max(_FEW_IDENTITIES, rate * _OPEN_SECONDS):
            continue
        topology = facts.manifest.topology
        groups = {component_group(topology, spout.name) for spout in facts.manifest.spouts_upstream(bolt)}
        held = [each for each in facts.held if each.group in groups]
        open_ = ", ".join(f"{each.topic}[{each.partition}] offset {each.offset}" for each in held)
        where = f" The messages of the findings open-messages are open: {open_}." if held else ""
        yield Check("identities", bolt).warning(
            f"Bolt {bolt} keeps {kept:,} identities of tuples in its state, and executes {rate:,.0f} tuples a second: "
            f"messages are open for long, or it cannot read what its spouts have committed.{where}",
            f"See which are open: acker trace --oldest 3 --topology {topology}; with max_retries a spout makes a dead "
            "letter of a message that fails again and again. If none is, the log of the bolt has the reason, after "
            "does not know what is done of its spouts' messages.",
        )


def _states(facts: TopologyFacts) -> Iterator[tuple[str, StateFigures]]:
    for bolt, report in facts.reports.items():
        if report.state is not None:
            yield bolt, report.state
