"""Valid names of topologies, components, streams and fields.

The dot separates the parts of a topic's name, so no part may hold one; Kafka allows 249 characters in all.
"""

import re
from typing import Final

from tuple_tree.errors import InvalidNameError

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,79}")
_FIELD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TOPIC: Final = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9._-]{1,249}")


def check_name(kind: str, name: str) -> str:
    """Returns the name if a topology, component or stream may have it. Raises `InvalidNameError` otherwise."""
    rule = "it must start with a letter and go on with letters, digits, '_' or '-', 80 characters at most"
    return _check(_NAME, kind, name, rule)


def check_field(name: str) -> str:
    """Returns the name if a field may have it (Avro's rule). Raises `InvalidNameError` otherwise."""
    return _check(_FIELD, "field", name, "it must be letters, digits and '_', no digit first")


def check_topic(name: str) -> str:
    """Returns the name if a topic may have it (Kafka's rule). Raises `InvalidNameError` otherwise."""
    return _check(_TOPIC, "topic", name, "Kafka takes letters, digits, '.', '_' and '-', 1 to 249 characters")


def _check(pattern: re.Pattern[str], kind: str, name: str, rule: str) -> str:
    if not pattern.fullmatch(name):
        raise InvalidNameError(f"{kind} name {name!r} cannot be used: {rule}")
    return name


def tuples_topic(topology: str, bolt: str) -> str:
    """The inbox of a bolt: all its sources write there, one partition a task."""
    return f"{topology}.tuples.{bolt}"


CHAIN_OF: Final = "chain of "
"""Prefix of the name that inputs of chained bolts have in place of a topic; the name of a topic has no space."""


def chain_of(head: str) -> str:
    """The name that inputs of the bolts chained to a component have in place of a topic."""
    return f"{CHAIN_OF}{head}"


def acks_topic(topology: str) -> str:
    return f"{topology}.acks"


def notices_topic(topology: str, spout: str) -> str:
    """The outcomes of a spout's trees, one partition a task."""
    return f"{topology}.notices.{spout}"


def dead_letters_topic(topology: str) -> str:
    return f"{topology}.dead-letters"


def state_topic(topology: str, bolt: str) -> str:
    """The changelog of a bolt's state: a record for each key, compacted, one partition a task."""
    return f"{topology}.state.{bolt}"


def results_topic(topology: str, bolt: str) -> str:
    """The results of a bolt's closed windows, one partition a task."""
    return f"{topology}.results.{bolt}"


def answers_topic(topology: str) -> str:
    """The answers of bolts, and the outcomes of the messages that they answer; one partition for each of the acks."""
    return f"{topology}.answers"


def stats_topic(topology: str) -> str:
    return f"{topology}.stats"


def acker_group(topology: str) -> str:
    return f"{topology}.acker"


def component_group(topology: str, component: str) -> str:
    """The consumer group in which the processes of a component share its tasks."""
    return f"{topology}.{component}"


def transactional_prefix(topology: str, component: str) -> str:
    """How the transactional ids of a bolt begin, and no other's: no part of a name holds a dot."""
    return f"{topology}.{component}."


def transactional_id(topology: str, component: str, slot: str) -> str:
    """The transactional id of a process of a bolt; a later process of the same slot fences it."""
    return f"{transactional_prefix(topology, component)}{slot}"


TOPOLOGIES_TOPIC: Final = "acker.topologies"
CATALOGUE_GROUP: Final = "acker.catalogue"  # the group of readers that have no group of their own; it is not joined
