"""The name of a setting, and how it is spelled as a flag, as a variable and in the file.

A name is `section.key`, such as `worker.log_interval_s`. Two sections hold properties of Kafka's own, whose names have
dots and no underscores: there an underscore means a dot, because variables and bare TOML keys cannot have dots.
"""

import difflib
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pydantic import BaseModel

from acker_cli.settings import ENV_DELIMITER, ENV_PREFIX, Settings

SERVERS: Final = "kafka.bootstrap.servers"
SERVERS_FLAG: Final = "--bootstrap-servers"
FILE_NAME: Final = "acker.toml"

_PROPERTIES: Final = ("kafka", "local_kafka.properties")
# The properties of librdkafka that do have an underscore.
_UNDERSCORED: Final = frozenset({"log_level"})


def known_names() -> list[str]:
    """All names, but for Kafka's own properties."""
    return list(_names_of(Settings, ""))


def _names_of(model: type[BaseModel], prefix: str) -> Iterator[str]:
    for field, info in model.model_fields.items():
        name = prefix + field
        if isinstance(info.annotation, type) and issubclass(info.annotation, BaseModel):
            yield from _names_of(info.annotation, f"{name}.")
        elif name not in _PROPERTIES:
            yield name


def flatten(values: Mapping[str, Any]) -> dict[str, Any]:
    """Turns nested tables, as files and variables give them, into names and values."""
    flat: dict[str, Any] = {}
    for path, value in _leaves(values, ()):
        flat[name_of(".".join(path))] = value
    return flat


def _leaves(values: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, (*path, str(key)))
        else:
            yield (*path, str(key)), value


def name_of(written: str) -> str:
    """The name of a setting however it is written, with underscores for the dots of Kafka's properties or without."""
    for section in _PROPERTIES:
        property_ = written.removeprefix(f"{section}.")
        if property_ != written:
            return f"{section}.{property_ if property_ in _UNDERSCORED else property_.replace('_', '.')}"
    return written


def nest(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Turns names and values into the nested form that `Settings` reads."""
    nested: dict[str, Any] = {}
    for name, value in flat.items():
        table = nested
        *path, key = split(name)
        for part in path:
            inner = table.setdefault(part, {})
            if not isinstance(inner, dict):
                break
            table = inner
        else:
            table[key] = value
    return nested


def split(name: str) -> list[str]:
    """The parts of a name; a property of Kafka's is one part."""
    for section in _PROPERTIES:
        if name.startswith(f"{section}."):
            return [*section.split("."), name.removeprefix(f"{section}.")]
    return name.split(".")


def variable(name: str) -> str:
    """The environment variable of a setting."""
    return ENV_PREFIX + ENV_DELIMITER.join(part.replace(".", "_").upper() for part in split(name))


def file_key(name: str) -> str:
    """Where a setting stands in the TOML file."""
    *tables, key = split(name)
    key = f'"{key}"' if "." in key else key
    return f"{key} under [{'.'.join(tables)}]" if tables else key


def flag(name: str) -> str:
    """The flag of a setting."""
    return SERVERS_FLAG if name == SERVERS else f"--set {name}=VALUE"


def how_to_set(name: str) -> str:
    """Half a sentence that names all three."""
    return f"set it with {flag(name)}, {variable(name)}, or {file_key(name)} in {FILE_NAME}"


def nearest(name: str) -> str | None:
    """The known name, or the section, that was probably meant."""
    names = known_names()
    sections = sorted({known.split(".")[0] for known in names} | {"kafka"})
    close = difflib.get_close_matches(name, [*names, *sections], n=1, cutoff=0.6)
    return close[0] if close else None
