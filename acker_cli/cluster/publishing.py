"""Publishing the manifest of a topology: what runs of it, and the plan of its changes."""

from collections.abc import Mapping
from contextlib import closing
from typing import Final

from acker_cli.cluster.change_plan import Running, Step, change_plan, grown_bolts, sharing_steps
from acker_cli.errors import CliError
from inspection.observer import Observer
from inspection.topology_status import ClusterStatus
from kafka_clients.catalogue import Catalogue, KafkaSettings
from kafka_clients.errors import BrokerError
from kafka_clients.repeated_lines import get_logger
from tuple_tree.manifest import Manifest
from tuple_tree.names import stats_topic, tuples_topic

logger = get_logger(__name__)

_BACK_SECONDS: Final = 15.0  # a process counts as gone before


def planned(
    kafka: KafkaSettings, catalogue: Catalogue, manifest: Manifest, *, force: bool, replace: bool = False
) -> list[Step]:
    """The steps by which a manifest is published.

    A user who may not read the published manifest, or the statistics, is warned of that.
    """
    topics = catalogue.topics()
    published: Manifest | None = None
    running, sharing = Running(), list[Step]()
    try:
        every = catalogue.manifests()
        sharing = sharing_steps(manifest, every)
        found = every.get(manifest.topology)
        if isinstance(found, Manifest):
            published = found
            if published != manifest:
                running = _running(kafka, topics, published)
    except BrokerError as error:
        logger.warning("it is not known whether %s has changed under running processes: %s", manifest.topology, error)
    return [*change_plan(published, manifest, topics, running, force=force, replace=replace), *sharing]


def grown_inboxes(catalogue: Catalogue, manifest: Manifest) -> dict[str, int]:
    """Inboxes that get more partitions, and how many they have then; for a plan that was accepted."""
    published = catalogue.manifests().get(manifest.topology)
    if not isinstance(published, Manifest):
        return {}
    return {tuples_topic(manifest.topology, bolt): tasks for bolt, tasks in grown_bolts(published, manifest).items()}


def check_accepted(topology: str, steps: list[Step]) -> None:
    """Raises `CliError` if a change of a plan is refused."""
    if refused := [step.text for step in steps if step.by == "refused"]:
        raise CliError(f"topology {topology} was not changed: {'; '.join(refused)}")


def _running(kafka: KafkaSettings, topics: Mapping[str, int], published: Manifest) -> Running:
    """The processes that report statistics, in the SDK or in Spark, and the lags of inboxes."""
    lags = _lags(kafka, topics, published)
    if stats_topic(published.topology) not in topics:
        return Running(lags=lags)
    with closing(Observer(kafka, published, _BACK_SECONDS)) as observer:
        observer.read_statistics()
        alive = [each for each in observer.snapshot()["components"] if each["processes"]]
    programs = {each["name"]: each["programs"] for each in alive}
    return Running({each["name"]: each["processes"] for each in alive}, lags, programs)


def _lags(kafka: KafkaSettings, topics: Mapping[str, int], published: Manifest) -> dict[str, int]:
    """Bolt → the lag of its inbox, where it is known."""
    (status,) = ClusterStatus(kafka).of([published], topics)
    lags = {bolt.name: status.of_component(bolt.name)[1] for bolt in published.inboxes}
    return {name: lag for name, lag in lags.items() if lag is not None}
