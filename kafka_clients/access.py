"""The roles of a topology, and the ACLs that each needs: these and no more. See `docs/security.md`.

Read and Write imply Describe, so that is not a permission of its own.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final, Literal

from tuple_tree.components import BoltManifest, SpoutManifest
from tuple_tree.manifest import Manifest
from tuple_tree.names import (
    CATALOGUE_GROUP,
    TOPOLOGIES_TOPIC,
    acker_group,
    acks_topic,
    answers_topic,
    component_group,
    dead_letters_topic,
    notices_topic,
    results_topic,
    state_topic,
    stats_topic,
    transactional_prefix,
    tuples_topic,
)

ACKER: Final = "acker"  # the role of the acker workers; no component may be called that
OPERATOR: Final = "operator"  # the role of a user that runs `acker topics create`
VIEWER: Final = "viewer"  # the role of a user that inspects the topology
CLIENT: Final = "client"  # the role of a user that sends messages, and waits for their outcomes


class Operation(Enum):
    """Kafka's operations; names as in its protocol, values as its command line spells them."""

    READ = "Read"
    WRITE = "Write"
    CREATE = "Create"
    DESCRIBE = "Describe"
    DESCRIBE_CONFIGS = "DescribeConfigs"


Operations = tuple[Operation, ...]
Resource = Literal["topic", "group", "transactional-id"]
Source = str | Sequence[str] | None
"""Topics that a spout reads: one or several; None if it reads none, or if they are configured elsewhere."""

_CREATES: Final[Operations] = (Operation.CREATE, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS)
_READS: Final[Operations] = (Operation.READ,)
_LOOKS: Final[Operations] = (Operation.READ, Operation.DESCRIBE_CONFIGS)
_WRITES: Final[Operations] = (Operation.WRITE,)
_DONE: Final[Mapping[Operation, str]] = {
    Operation.READ: "read",
    Operation.WRITE: "written",
    Operation.DESCRIBE_CONFIGS: "asked for its settings",
}


@dataclass(frozen=True, slots=True)
class Permission:
    """Permitted operations on one resource, or on all resources with a name prefix."""

    resource: Resource
    name: str
    operations: Operations
    prefixed: bool = False  # whether the name is a beginning
    optional: bool = False  # whether the role does its work without it as well


@dataclass(frozen=True, slots=True)
class Role:
    name: str
    title: str
    permissions: tuple[Permission, ...]
    is_component: bool = False  # whether it is a spout or a bolt; one may be called `operator`
    note: str = ""  # what cannot be known from the topology
    chained: tuple[str, ...] = ()  # the chained bolts that run in the tasks of the component, with this role

    @property
    def needed_topics(self) -> dict[str, Operations]:
        """Its operations on the topics that are named one by one and that it cannot do without."""
        topics = (each for each in self.permissions if each.resource == "topic" and not each.prefixed)
        return {each.name: each.operations for each in topics if not each.optional}


def roles(
    manifest: Manifest,
    sources: Mapping[str, Source] | None = None,
    targets: Mapping[str, str] | None = None,
) -> list[Role]:
    """All roles that do a topology's work; not the viewer, who reads everything and is needed for nothing.

    Sources of spouts and targets of `KafkaBolt`s are given by component, where they are known. Chained bolts have no
    role of their own.
    """
    reads, writes = sources or {}, targets or {}
    producers = [acker_role(manifest)] if manifest.acking else []
    producers += [
        component_role(manifest, each.name, reads.get(each.name), targets_of(manifest, each.name, writes), reads)
        for each in manifest.heads
    ]
    return [operator_role(manifest), *producers]


def operator_role(manifest: Manifest) -> Role:
    """A user that creates and checks the topics, and publishes the manifest."""
    return Role(
        OPERATOR,
        "the operator who runs acker topics create",
        (
            Permission("topic", f"{manifest.topology}.", _CREATES, prefixed=True),
            Permission("topic", TOPOLOGIES_TOPIC, (*_CREATES, Operation.READ, Operation.WRITE)),
            # Whether processes run under a manifest that changes.
            Permission("topic", stats_topic(manifest.topology), _READS, optional=True),
            Permission("group", CATALOGUE_GROUP, _READS),
        ),
    )


def viewer_role(manifest: Manifest, sources: Mapping[str, Source] | None = None) -> Role:
    """A user that runs `acker top`, `dashboard`, `trace`, `status`, `doctor`, `topologies show`, or lists dead letters.

    `acker status` reads the source topics of spouts, and their outcomes.
    """
    begin = f"{manifest.topology}."
    read = [topic for source in (sources or {}).values() for topic in _names(source)]
    read += [spout.outcomes.topic for spout in manifest.spouts if spout.outcomes is not None]
    return Role(
        VIEWER,
        "a user of acker top, trace, status, doctor and dashboard",
        (
            Permission("topic", begin, _LOOKS, prefixed=True),
            Permission("topic", TOPOLOGIES_TOPIC, _LOOKS),
            *[Permission("topic", topic, _READS, optional=True) for topic in dict.fromkeys(read)],
            Permission("group", begin, (Operation.DESCRIBE,), prefixed=True),
            Permission("group", CATALOGUE_GROUP, _READS),
        ),
        note="it reads all payloads of the topology, and changes nothing",
    )


def client_role(manifest: Manifest, sources: Mapping[str, Source] | None = None) -> Role:
    """A user of `Client` or `acker gateway`, who sends messages of spouts, and reads their outcomes and answers."""
    reads, writes = list[str](), list[str]()
    for spout in manifest.spouts:
        if spout in manifest.answered_spouts and not spout.external:
            reads.append(answers_topic(manifest.topology))
        elif spout.outcomes is not None:
            reads.append(spout.outcomes.topic)
        else:
            continue
        writes += _names((sources or {}).get(spout.name))
    return Role(
        CLIENT,
        "a user of Client or acker gateway",
        (
            Permission("topic", TOPOLOGIES_TOPIC, _READS),
            *[Permission("topic", topic, _READS) for topic in dict.fromkeys(reads)],
            *[Permission("topic", topic, _WRITES) for topic in dict.fromkeys(writes)],
            Permission("group", CATALOGUE_GROUP, _READS),
        ),
        note="it reads the outcomes and answers of all messages of these spouts",
    )


def acker_role(manifest: Manifest) -> Role:
    """The acker workers: alone in reading acks and in writing notices."""
    topology = manifest.topology
    return Role(
        ACKER,
        "the acker workers",
        (
            Permission("topic", TOPOLOGIES_TOPIC, _READS),
            Permission("topic", acks_topic(topology), _LOOKS),
            *[Permission("topic", notices_topic(topology, spout.name), _WRITES) for spout in manifest.spouts],
            Permission("topic", dead_letters_topic(topology), (Operation.WRITE, Operation.DESCRIBE_CONFIGS)),
            _stats(topology),
            Permission("group", acker_group(topology), _READS),
        ),
    )


def component_role(
    manifest: Manifest,
    name: str,
    source: Source = None,
    targets: Sequence[str] = (),
    upstream: Mapping[str, Source] = MappingProxyType({}),
) -> Role:
    """The role of a component and of the bolts that are chained to it, which run in its processes.

    Args:
        name: the name of the component, which is not a chained bolt.
        targets: the topics to which it and its chained bolts write as `KafkaBolt`s; `targets_of` returns them.
        upstream: spout → its source topics. A bolt with a state reads the committed offsets of the spouts upstream.
    """
    sources = _names(source)
    component, topology = manifest.component(name), manifest.topology
    chained = tuple(bolt.name for bolt in manifest.chained_to(name))
    emitters = (name, *chained)
    is_spout = isinstance(component, SpoutManifest)
    note = ""
    uses: defaultdict[str, list[Operation]] = defaultdict(list)
    if not is_spout:
        uses[tuples_topic(topology, name)] += _READS
    elif manifest.acking or not component.external:
        uses[notices_topic(topology, name)] += _READS
    if manifest.acking:
        uses[acks_topic(topology)] += _WRITES
    for receiver in manifest.inboxes:
        if any(subscription.source in emitters for subscription in receiver.subscriptions):
            uses[tuples_topic(topology, receiver.name)] += _WRITES
    uses[dead_letters_topic(topology)] += _WRITES
    if (state := getattr(component, "state", None)) is not None:
        uses[state_topic(topology, name)] += (*_READS, *_WRITES)
        if state.windows == "close":
            uses[results_topic(topology, name)] += _WRITES
    if any(bolt.answers for bolt in (component, *manifest.chained_to(name)) if isinstance(bolt, BoltManifest)) or (
        component in manifest.answered_spouts and not component.external
    ):
        uses[answers_topic(topology)] += _WRITES
    if component.external and is_spout and not sources:
        # Where its messages land that do not come from a topic.
        uses[f"{topology}.replay.{name}"] += (*_READS, *_WRITES, Operation.CREATE)
        note = "its source is a function: allow Read of the topic as well that this names, if it does"
    if not component.external:
        for operations in uses.values():
            operations.append(Operation.DESCRIBE_CONFIGS)
    if not component.external or is_spout:
        uses[TOPOLOGIES_TOPIC] += _READS
    for topic in sources:
        uses[topic] += _READS
    outcomes = component.outcomes if isinstance(component, SpoutManifest) else None
    for topic in (*targets, *([] if outcomes is None else [outcomes.topic])):
        uses[topic] += _WRITES
    permissions = [Permission("topic", topic, tuple(dict.fromkeys(each))) for topic, each in uses.items()]
    shuffles = any(manifest.shuffled_to(each) for each in emitters) and not component.external
    permissions.append(_stats(topology, *(_READS if shuffles else ())))
    permissions.append(Permission("group", component_group(topology, name), _READS))
    if getattr(component, "state", None) is not None:
        for spout in manifest.spouts_upstream(name):
            if not spout.external and (topics := _names(upstream.get(spout.name))):
                permissions.append(Permission("group", component_group(topology, spout.name), (Operation.DESCRIBE,)))
                permissions += [Permission("topic", each, (Operation.DESCRIBE,)) for each in topics if each not in uses]
    has_transactions = manifest.guarantee_of(name) == "exactly_once" and (not is_spout or bool(chained))
    if has_transactions and not component.external:
        # Each of its processes has an id of its own.
        permissions.append(Permission("transactional-id", transactional_prefix(topology, name), _WRITES, prefixed=True))
    title = f"{'external ' if component.external else ''}{component.kind} {name}"
    if chained:
        title += f", to which {', '.join(chained)} {'is' if len(chained) == 1 else 'are'} chained"
    return Role(name, title, tuple(permissions), is_component=True, note=note, chained=chained)


def targets_of(manifest: Manifest, name: str, targets: Mapping[str, str]) -> tuple[str, ...]:
    """The topics to which a component and its chained bolts write; `targets` has a topic by component."""
    names = (name, *(bolt.name for bolt in manifest.chained_to(name)))
    return tuple(dict.fromkeys(targets[each] for each in names if each in targets))


def _names(source: Source) -> tuple[str, ...]:
    return (source,) if isinstance(source, str) else tuple(source or ())


def _stats(topology: str, *more: Operation) -> Permission:
    # A topology works without its statistics.
    return Permission("topic", stats_topic(topology), (*more, *_WRITES), optional=True)


def remedy(role: str | None = None) -> str:
    """The end of a message about something that is not allowed."""
    chosen = "" if role is None else f" --role {role}"
    return f"allow it with what acker topics acls MODULE:TOPOLOGY{chosen} prints"


def shortfall(needed: Operations, allowed: Iterable[str] | None) -> str:
    """Permissions that a user lacks for a topic, as half a sentence about it; empty if none, or if not known."""
    if allowed is None:
        return ""
    may = set(allowed)
    if not may:
        return "has no DESCRIBE ACL for this user"
    missing = [_DONE[each] for each in needed if each.name not in may and each in _DONE]
    return f"may not be {' or '.join(missing)} by this user" if missing else ""
