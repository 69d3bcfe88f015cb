"""The name of a setting, how it is spelled as a flag, as a variable and in the file, and whether it is a secret.

A name is `section.key`, such as `worker.log_interval_s`. Two sections hold properties of Kafka's own, whose names have
dots and no underscores: there an underscore means a dot, because variables and bare TOML keys cannot have dots.
"""

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pydantic import BaseModel

from acker_cli.settings.sections import ENV_DELIMITER, ENV_PREFIX, Settings

SERVERS: Final = "kafka.bootstrap.servers"
SERVERS_FLAG: Final = "--bootstrap-servers"
FILE_NAME: Final = "acker.toml"
MASK: Final = "********"

_PROPERTIES: Final = ("kafka", "local_kafka.properties")
# The properties of librdkafka that do have an underscore.
_UNDERSCORED: Final = frozenset({"log_level"})
_SECRET: Final = re.compile(
    r"passw|secret|token|credential|private|key\.pem|keystore\.key$|sasl\.jaas|oauthbearer\.(config|assertion)|(^|[._])pin$",
    re.IGNORECASE,
)


def known_names(model: type[BaseModel] = Settings, prefix: str = "") -> Iterator[str]:
    """All names, but for Kafka's own properties."""
    for field, info in model.model_fields.items():
        name = prefix + field
        if isinstance(info.annotation, type) and issubclass(info.annotation, BaseModel):
            yield from known_names(info.annotation, f"{name}.")
        elif name not in _PROPERTIES:
            yield name


def flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Turns nested tables, as files and variables give them, into names and values."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[name_of(f"{prefix}{key}")] = value
    return flat


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
    return ENV_PREFIX + ENV_DELIMITER.join(part.replace(".", "_").upper() for part in split(name))


def file_key(name: str) -> str:
    *tables, key = split(name)
    key = f'"{key}"' if "." in key else key
    return f"{key} under [{'.'.join(tables)}]" if tables else key


def how_to_set(name: str) -> str:
    """Half a sentence that names the flag, the variable and the key."""
    flag = SERVERS_FLAG if name == SERVERS else f"--set {name}=VALUE"
    return f"set it with {flag}, {variable(name)}, or {file_key(name)} in {FILE_NAME}"


def nearest(name: str) -> str | None:
    """The known name, or the section, that was probably meant."""
    names = list(known_names())
    sections = sorted({known.split(".")[0] for known in names} | {"kafka"})
    close = difflib.get_close_matches(name, [*names, *sections], n=1, cutoff=0.6)
    return close[0] if close else None


def is_secret(name: str) -> bool:
    """Whether a setting of this name, such as `kafka.sasl.password`, holds a secret, which is never shown."""
    return _SECRET.search(name) is not None


def shown(name: str, value: object) -> object:
    """The value as people may see it."""
    return MASK if is_secret(name) and value is not None else value
