"""Deleting a topology from a cluster, so that an interrupted deletion can be repeated (`docs/adr/0012`).

The manifest goes first, so that the workers that serve all topologies stop serving this one; then its groups, and its
topics last: by their names alone a repetition finds the groups.
"""

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException

from acker_cli.errors import CliError
from inspection.topology_status import ClusterStatus
from kafka_clients.catalogue import CONTACT_SECONDS
from kafka_clients.errors import REFUSED, AccessError, BrokerUnreachableError
from tuple_tree.errors import InvalidNameError, ManifestError
from tuple_tree.manifest import Manifest
from tuple_tree.names import (
    acker_group,
    acks_topic,
    answers_topic,
    check_name,
    component_group,
    dead_letters_topic,
    stats_topic,
)

_LEAVE_SECONDS: Final = 30.0
"""Seconds within which acker workers have to leave the group."""
_LOOK_SECONDS: Final = 0.2
_OF_COMPONENTS: Final = ("tuples", "notices", "replay", "state", "results")
"""The topics `{topology}.WORD.{component}`."""


@dataclass(frozen=True, slots=True)
class TopologyResources:
    """Everything of a topology on a cluster: a manifest, readable or not; groups that may exist; existing topics."""

    topology: str
    is_published: bool
    groups: tuple[str, ...]
    topics: tuple[str, ...]

    def __bool__(self) -> bool:
        return self.is_published or bool(self.topics)


def resources_of(
    topology: str, manifests: Mapping[str, Manifest | ManifestError], existing: Collection[str]
) -> TopologyResources:
    """Finds the resources of a topology by its manifest, if there is one, and by the names of existing topics."""
    manifest = manifests.get(topology)
    components = {part.name for part in manifest.heads} if isinstance(manifest, Manifest) else set()
    own = (acks_topic(topology), answers_topic(topology), dead_letters_topic(topology), stats_topic(topology))
    topics = [name for name in own if name in existing]
    for name in sorted(existing):
        component = _component_of(topology, name)
        if component is not None:
            topics.append(name)
            components.add(component)
    groups = (acker_group(topology), *(component_group(topology, name) for name in sorted(components)))
    return TopologyResources(topology, topology in manifests, groups, tuple(sorted(topics)))


def _component_of(topology: str, topic: str) -> str | None:
    """The component that a topic belongs to; None if it is not one of the topology's."""
    owner, _, rest = topic.partition(".")
    kind, _, component = rest.partition(".")
    if owner != topology or kind not in _OF_COMPONENTS:
        return None
    try:
        return check_name("component", component)
    except InvalidNameError:
        return None


class Removal:
    """Deletes the resources of a topology; `show` takes lines about what was done."""

    def __init__(
        self,
        status: ClusterStatus,
        resources: TopologyResources,
        show: Callable[[str], None],
        leave_s: float = _LEAVE_SECONDS,
    ) -> None:
        self._resources = resources
        self._show = show
        self._leave_s = leave_s
        self._status = status
        self._admin = status.catalogue.admin

    def check_unused(self) -> None:
        """An error if a process of a component is running; acker workers leave by themselves."""
        topology = self._resources.topology
        components = set(self._resources.groups) - {acker_group(topology)}
        used = {group: count for group, count in self._status.members(components).items() if count}
        if used:
            raise CliError(
                f"topology {topology} is running: {_listed(used)}. Stop these processes first; --force deletes it all "
                "the same"
            )

    def withdraw(self, *, force: bool) -> None:
        """Withdraws the manifest, and waits until the acker workers have left; an error if not, unless `force`."""
        topology, group = self._resources.topology, acker_group(self._resources.topology)
        if self._resources.is_published:
            self._status.catalogue.withdraw(topology)
            self._show("withdrawn from acker.topologies")
        deadline = time.monotonic() + self._leave_s
        notified = False
        while count := self._status.members([group])[group]:
            if time.monotonic() > deadline:
                if force:
                    return
                raise CliError(
                    f"{topology} is withdrawn, but {_listed({group: count})} after {self._leave_s:g} s. Stop the "
                    f"acker workers that were started with --topology {topology}, and repeat this command, which "
                    "continues where it ended; --force does not wait for them"
                )
            if not notified:
                self._show(f"waiting for {count} acker workers to leave …")
                notified = True
            time.sleep(_LOOK_SECONDS)

    def delete(self) -> list[str]:
        """Deletes groups and topics; returns what could not be deleted, with the reason."""
        groups, topics = [*self._resources.groups], [*self._resources.topics]
        answers = self._admin.delete_consumer_groups(groups, request_timeout=CONTACT_SECONDS)
        left = [self._outcome(f"group {name}", answer) for name, answer in answers.items()]
        if topics:
            bounds = {"operation_timeout": CONTACT_SECONDS, "request_timeout": 2 * CONTACT_SECONDS}
            answers = self._admin.delete_topics(topics, **bounds)
            left += [self._outcome(f"topic {name}", answer) for name, answer in answers.items()]
        return [why for why in left if why]

    def _outcome(self, what: str, answer: Any) -> str:
        try:
            answer.result()
        except KafkaException as error:
            code, why = error.args[0].code(), error.args[0].str()
            if code in (KafkaError.GROUP_ID_NOT_FOUND, KafkaError.UNKNOWN_TOPIC_OR_PART):
                return ""
            if code in REFUSED:
                raise AccessError(
                    f"{what} may not be deleted by this user: allow Delete for topics and groups that begin with "
                    f"{self._resources.topology}., and repeat this command"
                ) from error
            if code in (KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):
                raise BrokerUnreachableError(
                    f"{what} could not be deleted: {why}. Repeat this command when the brokers are available"
                ) from error
            return f"{what} ({why})"
        self._show(f"deleted {what}")
        return ""


def _listed(members: Mapping[str, int | None]) -> str:
    return ", ".join(f"group {group} has {count} members" for group, count in sorted(members.items()))
