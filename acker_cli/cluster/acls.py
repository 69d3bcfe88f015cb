"""ACLs of roles as commands of Kafka's own `kafka-acls`."""

import shlex
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from acker_cli.errors import SettingsError
from kafka_clients.access import OPERATOR, Operations, Permission, Role


@dataclass(frozen=True, slots=True)
class Principals:
    """The principal of each role of a topology: the template with `{topology}` and `{role}` filled in."""

    topology: str
    template: str = "User:{topology}.{role}"
    operator: str | None = None

    def of(self, role: Role) -> str:
        if role.name == OPERATOR and not role.is_component and self.operator is not None:
            return self.operator
        return self.template.replace("{topology}", self.topology).replace("{role}", role.name)

    def checked(self, roles: Sequence[Role]) -> "Principals":
        """Returns itself; an error if a principal is none, or a component would share that of the operator."""
        for principal in filter(None, (self.template, self.operator)):
            kind, _, name = principal.partition(":")
            if not (kind and name):
                raise SettingsError(
                    f"{principal!r} is not a principal: Kafka's are KIND:NAME, such as User:alice or User:CN=alice"
                )
        if self.operator is None and [role.name for role in roles].count(OPERATOR) > 1:
            raise SettingsError(
                f"component {OPERATOR!r} of topology {self.topology!r} has the name of the operator's role: say who "
                "creates the topics with --operator PRINCIPAL"
            )
        return self


def chosen_roles(roles: Sequence[Role], names: Sequence[str]) -> list[Role]:
    """The roles of these names, or all if there are none."""
    known = {role.name for role in roles}
    heads = {bolt: role.name for role in roles for bolt in role.chained}
    for name in names:
        if name in heads and name not in known:
            raise SettingsError(f"{name!r} is a chained bolt without a role of its own: give --role {heads[name]}")
        if name not in known:
            raise SettingsError(f"there is no role {name!r}: the topology has {', '.join(sorted(known))}")
    return [role for role in roles if not names or role.name in names]


def commands(roles: Sequence[Role], principals: Principals, command: Sequence[str]) -> Iterator[str]:
    """A line for each principal and kind of access, each role under a comment; `command` is how `kafka-acls` starts."""
    for number, role in enumerate(roles):
        if number:
            yield ""
        yield f"# {role.title}"
        if role.note:
            yield f"# {role.note}"
        for permissions in _alike(role.permissions):
            line = [*command, "--add", "--allow-principal", principals.of(role)]
            for operation in permissions[0].operations:
                line += ["--operation", operation.value]
            for permission in permissions:
                line += [f"--{permission.resource}", permission.name]
            if permissions[0].prefixed:
                line += ["--resource-pattern-type", "prefixed"]
            yield shlex.join(line)


def _alike(permissions: Sequence[Permission]) -> list[list[Permission]]:
    """Groups of permissions that one command can give: of one kind and for the same operations."""
    alike: dict[tuple[str, bool, Operations], list[Permission]] = defaultdict(list)
    for permission in permissions:
        alike[permission.resource, permission.prefixed, permission.operations].append(permission)
    return list(alike.values())


def as_json(roles: Sequence[Role], principals: Principals) -> list[dict[str, Any]]:
    return [
        {
            "role": role.name,
            "principal": principals.of(role),
            "note": role.note,
            "acls": [
                {
                    "resource": permission.resource,
                    "name": permission.name,
                    "pattern": "prefixed" if permission.prefixed else "literal",
                    "operations": [operation.value for operation in permission.operations],
                }
                for permission in role.permissions
            ],
        }
        for role in roles
    ]
