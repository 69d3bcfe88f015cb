"""Checks of the states of running bolts; that of their changelogs is a check of topics."""

from collections.abc import Iterator
from typing import Final

from inspection.health.findings import Check, Finding
from inspection.health.limits import FEW_IDENTITIES, OPEN_SECONDS, RESTORE_SECONDS
from inspection.health.observation import Observation
from inspection.state_figures import StateFigures
from tuple_tree.names import component_group

_LIMIT_RETRIES: Final = "; with max_retries a spout makes a dead letter of a message that fails again and again"


def check_restores(observed: Observation) -> Iterator[Finding]:
    """No restore takes longer than a message timeout."""
    for bolt, state in _states(observed):
        restore = state["restore"]
        if restore is None or restore["seconds"] <= min(observed.timeout_s(bolt), RESTORE_SECONDS):
            continue
        tasks, done, seconds = ", ".join(map(str, restore["tasks"])), restore["done"], restore["seconds"]
        left = f", and about {seconds * (1 - done) / done:,.0f} s are left" if 0 < done < 1 else ""
        yield Check("restores", bolt, component=bolt).warning(
            f"Bolt {bolt} has been restoring the state of tasks {tasks} for {seconds:,.0f} s: {100 * done:.0f} % is "
            f"read, {restore['records_per_second']:,.0f} records/s{left}. These tasks execute nothing meanwhile, and "
            "the trees that wait for them time out and are replayed.",
            "If it gets further: more processes, a store on disk (state.directory), or keys that expire make it "
            "shorter. Else its log has the reason, such as a transaction of an earlier owner.",
        )


def check_identities(observed: Observation) -> Iterator[Finding]:
    """Spouts commit what is done, so that states need not keep its identities."""
    for bolt, state in _states(observed):
        kept, rate = state["identities"] or 0, observed.components[bolt]["executed_per_second"] or 0.0
        if kept <= max(FEW_IDENTITIES, rate * OPEN_SECONDS):
            continue
        topology = observed.topology
        spouts = observed.manifest.spouts_upstream(bolt)
        groups = {component_group(topology, spout.name) for spout in spouts}
        are_limited = all("max_retries" in observed.components[spout.name]["settings"] for spout in spouts)
        held = [each for each in observed.open_messages if each.group in groups]
        open_ = ", ".join(f"{each.topic}[{each.partition}] offset {each.offset}" for each in held)
        where = f" The messages of the findings open-messages are open: {open_}." if held else ""
        yield Check("identities", bolt, component=bolt).warning(
            f"Bolt {bolt} keeps {kept:,} identities of tuples in its state, and executes {rate:,.0f} tuples a second: "
            f"messages are open for long, or it cannot read what its spouts have committed.{where}",
            f"See which are open: acker trace --oldest 3 --topology {topology}{'' if are_limited else _LIMIT_RETRIES}. "
            "If none is, the log of the bolt has the reason, after does not know what is done of its spouts' messages.",
        )


def _states(observed: Observation) -> Iterator[tuple[str, StateFigures]]:
    for name, view in observed.components.items():
        if view["state"] is not None and view["processes"]:
            yield name, view["state"]
