"""The name of a setting, how it is spelled as a flag, as a variable and in the file, and whether it is a secret.

A name is `section.key`, such as `worker.log_interval_s`. Two sections hold properties of Kafka's own, whose names have
dots and no underscores: there an underscore means a dot, because variables and bare TOML keys cannot have dots.
"""

import difflib
import re
from collections.abc import Mapping
from typing import Any, Final

from acker_cli.settings.sections import ENV_DELIMITER, ENV_PREFIX, Settings

SERVERS: Final = "kafka.bootstrap.servers"
SERVERS_FLAG: Final = "--bootstrap-servers"
FILE_NAME: Final = "acker.toml"
MASK: Final = "********"

_PROPERTY: Final = re.compile(r"(kafka|local_kafka\.properties)\.(.+)")
# The properties of librdkafka that do have an underscore.
_UNDERSCORED: Final = frozenset({"log_level"})
_SECRET: Final = re.compile(
    r"passw|secret|token|credential|private|key\.pem|keystore\.key$|sasl\.jaas|oauthbearer\.(config|assertion)|(^|[._])pin$",
    re.IGNORECASE,
)


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
    found = _PROPERTY.fullmatch(written)
    if found is None or found[2] in _UNDERSCORED:
        return written
    return f"{found[1]}.{found[2].replace('_', '.')}"


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
    found = _PROPERTY.fullmatch(name)
    return name.split(".") if found is None else [*found[1].split("."), found[2]]


def variable(name: str) -> str:
    return ENV_PREFIX + ENV_DELIMITER.join(part.replace(".", "_").upper() for part in split(name))


def file_key(name: str) -> str:
    *tables, key = split(name)
    key = f'"{key}"' if "." in key else key
    return f"{key} under [{'.'.join(tables)}]" if tables else key


def how_to_set(name: str) -> str:
    """The end of a message, with the flag, the variable and the key."""
    flag = SERVERS_FLAG if name == SERVERS else f"--set {name}=VALUE"
    return f"set it with {flag}, {variable(name)}, or {file_key(name)} in {FILE_NAME}"


def nearest(name: str) -> str | None:
    """The known name or section that is most like it."""
    known = [*flatten(Settings().model_dump()), *sorted(Settings.model_fields)]
    return next(iter(difflib.get_close_matches(name, known, n=1, cutoff=0.6)), None)


def is_secret(name: str) -> bool:
    """Whether a setting of this name, such as `kafka.sasl.password`, holds a secret, which is never shown."""
    return _SECRET.search(name) is not None


def shown(name: str, value: object) -> object:
    """The value as people may see it."""
    return MASK if is_secret(name) and value is not None else value
