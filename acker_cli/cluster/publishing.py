"""Publishing the manifest of a topology that has one: what must not change while its processes run."""

from collections.abc import Mapping
from contextlib import closing
from typing import Final

from acker_cli.errors import CliError
from inspection.observer import Observer
from kafka_clients.catalogue import Catalogue, KafkaSettings
from kafka_clients.errors import BrokerError
from kafka_clients.repeated_lines import get_logger
from tuple_tree.components import StateManifest
from tuple_tree.manifest import Manifest
from tuple_tree.names import stats_topic
from tuple_tree.streams import Stream

logger = get_logger(__name__)

_BACK_SECONDS: Final = 15.0  # a process counts as gone before
_HOW_TO: Final = "docs/how-to/change-a-topology.md: a second stream with the new fields needs no stop"


def breaking_changes(published: Manifest, manifest: Manifest) -> list[str]:
    """Differences that processes with the published manifest and processes with the new one would misunderstand."""
    changes = []
    if published.guarantee != manifest.guarantee:
        changes.append(f"the guarantee is {manifest.guarantee}, and was {published.guarantee}")
    states = {bolt.name: bolt.state for bolt in published.bolts}
    for bolt in manifest.bolts:
        old_state = states.get(bolt.name, bolt.state)
        if old_state != bolt.state:
            changes.append(f"the state of {bolt.name!r} is {_state(bolt.state)}, and was {_state(old_state)}")
    changes += _changed_chains(published, manifest)
    before = {(each.name, stream.name): stream for each in published.components for stream in each.streams}
    for component in manifest.components:
        for stream in component.streams:
            old = before.get((component.name, stream.name), stream)
            if (old.fields, old.codec) != (stream.fields, stream.codec):
                changes.append(
                    f"stream {stream.name!r} of {component.name!r} has {_shown(stream)}, and had {_shown(old)}"
                )
    return changes


def _changed_chains(published: Manifest, manifest: Manifest) -> list[str]:
    """Bolts that have an inbox in only one of the manifests: tuples in it would not be read."""
    heads = {bolt.name: published.head(bolt.name).name for bolt in published.bolts}
    changes = []
    for bolt in manifest.bolts:
        head, was = manifest.head(bolt.name).name, heads.get(bolt.name)
        if was is not None and bolt.is_chained and was == bolt.name:
            changes.append(f"{bolt.name!r} is chained to {head!r}, and had an inbox")
        elif was is not None and not bolt.is_chained and was != bolt.name:
            changes.append(f"{bolt.name!r} has an inbox, and was chained to {was!r}")
    return changes


def _state(state: StateManifest | None) -> str:
    if state is None:
        return "none"
    key = ", ".join(f"{field.name}: {field.type}" for field in state.key)
    expires = "" if state.expire_after_ms is None else f", expires after {state.expire_after_ms} ms"
    return f"{key} → {_shown(state.value)}{expires}"


def _shown(stream: Stream) -> str:
    return f"{', '.join(f'{field.name}: {field.type}' for field in stream.fields)} ({stream.codec})"


def check_publishable(kafka: KafkaSettings, catalogue: Catalogue, manifest: Manifest, *, force: bool) -> None:
    """Raises `CliError` for a change that processes which are running do not survive, and otherwise warns of it.

    A user who may not read the published manifest, or the statistics, is warned of that.
    """
    topology = manifest.topology
    try:
        published = catalogue.manifests().get(topology)
        changes = breaking_changes(published, manifest) if isinstance(published, Manifest) else []
        running = _running(kafka, catalogue, manifest) if changes else {}
    except BrokerError as error:
        logger.warning("it is not known whether %s has changed under running processes: %s", topology, error)
        return
    if not changes:
        return
    what = "; ".join(changes)
    if running and not force:
        processes = ", ".join(f"{name}: {count}" for name, count in running.items())
        raise CliError(
            f"topology {topology} is running ({processes}), and the new manifest has changes for which its processes "
            f"must be stopped: {what}. Stop its spouts, wait until the inboxes have no lag (acker topologies show "
            f"{topology}), stop the others, and repeat this command; --force publishes it all the same. See {_HOW_TO}"
        )
    logger.warning(
        "the manifest of %s changes: %s. Earlier tuples that are still in an inbox become dead letters (bad-payload), "
        "or are never read if their bolt is chained now. Stop all processes with the earlier code; see %s",
        topology,
        what,
        _HOW_TO,
    )


def _running(kafka: KafkaSettings, catalogue: Catalogue, manifest: Manifest) -> Mapping[str, int]:
    """Component → its processes that report statistics, in the SDK or in Spark."""
    if stats_topic(manifest.topology) not in catalogue.topics():
        return {}
    with closing(Observer(kafka, manifest, _BACK_SECONDS)) as observer:
        observer.read_statistics()
        components = observer.snapshot()["components"]
    return {each["name"]: each["processes"] for each in components if each["processes"]}
