"""Where settings come from, one layer over another: flags, environment, TOML file, defaults; and how they are spelled.

The name of a setting is `section.key`, such as `worker.log_interval_s`. Two sections hold properties of Kafka's own,
whose names have dots and no underscores: there an underscore means a dot, because variables and bare TOML keys cannot
have dots.
"""

import difflib
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError
from pydantic_settings import EnvSettingsSource, TomlConfigSettingsSource
from pydantic_settings.exceptions import SettingsError as UnreadableVariableError

from acker_cli.errors import SettingsError
from acker_cli.settings import DEFAULT, LoadedSettings
from acker_cli.settings.sections import ENV_DELIMITER, ENV_PREFIX, Settings

CONFIG_VARIABLE: Final = "ACKER_CONFIG"
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

_Layer = dict[str, tuple[Any, str]]
"""The settings of one source: name → value, and where exactly it was set."""


def load(
    config: Path | None = None, bootstrap_servers: str | None = None, assignments: Sequence[str] = ()
) -> LoadedSettings:
    """Reads all layers; an error if a setting cannot be used.

    The command line has the TOML file, where Kafka is, and `NAME=VALUE` for each `--set`.
    """
    path = _config_path(config)
    merged = _file_layer(path) | _environment_layer() | _flag_layer(bootstrap_servers, assignments)
    values = {name: value for name, (value, _) in merged.items()}
    origins = {name: origin for name, (_, origin) in merged.items()}
    try:
        settings = Settings(**nest(values))
    except ValidationError as error:
        raise SettingsError(_explain(error, values, origins)) from error
    return LoadedSettings(settings, origins, path)


def _config_path(chosen: Path | None) -> Path | None:
    by = "--config"
    if chosen is None and (given := os.environ.get(CONFIG_VARIABLE)):
        chosen, by = Path(given).expanduser(), CONFIG_VARIABLE
    if chosen is None:
        usual = Path(FILE_NAME).absolute()
        return usual if usual.is_file() else None
    if not chosen.is_file():
        raise SettingsError(f"there is no file {chosen}, which {by} names: give the path of a TOML file")
    return chosen.absolute()


def _file_layer(path: Path | None) -> _Layer:
    if path is None:
        return {}
    try:
        read = TomlConfigSettingsSource(Settings, path).toml_data
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is not TOML: {error}. Correct it, or name another file with --config") from error
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}. Name another file with --config") from error
    return {name: (value, f"file {path}") for name, value in flatten(read).items()}


def _environment_layer() -> _Layer:
    try:
        values = flatten(EnvSettingsSource(Settings)())
    except UnreadableVariableError as error:
        raise SettingsError(
            f"{error}: a variable that stands for a whole section holds JSON; set one for each value instead, "
            "such as ACKER_WORKER__LOG_INTERVAL_S=5"
        ) from error
    present = {each.upper(): each for each, value in os.environ.items() if value}
    return {name: (value, f"environment {_variable_of(name, present)}") for name, value in values.items()}


def _variable_of(name: str, present: Mapping[str, str]) -> str:
    # A section may be given as a whole, as JSON.
    spelled = [*map(variable, _prefixes(name))]
    return next((present[each] for each in spelled if each in present), spelled[0])


def _flag_layer(bootstrap_servers: str | None, assignments: Sequence[str]) -> _Layer:
    layer: _Layer = {}
    for assignment in assignments:
        written, separator, value = assignment.partition("=")
        if not separator or not written:
            raise SettingsError(f"--set takes NAME=VALUE, such as --set worker.log_interval_s=5, not {written!r}")
        name = name_of(written)
        if is_secret(name):
            raise SettingsError(
                f"{name} cannot be set with --set, because all users of the machine can read command lines: set it "
                f"with {variable(name)}, or {file_key(name)} in {FILE_NAME}"
            )
        layer[name] = value, "flag --set"
    if bootstrap_servers:
        layer[SERVERS] = bootstrap_servers, f"flag {SERVERS_FLAG}"
    return layer


def _explain(error: ValidationError, values: Mapping[str, Any], origins: Mapping[str, str]) -> str:
    """The first finding as one line."""
    finding = error.errors(include_url=False)[0]
    written = name_of(".".join(str(part) for part in finding["loc"]))
    # Behind the name, pydantic says which member of a union it tried.
    name = next((each for each in _prefixes(written) if each in origins), written)
    origin = origins.get(name) or next((o for n, o in origins.items() if n.startswith(f"{name}.")), DEFAULT)
    if finding["type"] == "extra_forbidden":
        known = nearest(name)
        hint = f"did you mean {known}?" if known else "take it out"
        return f"unknown setting {name} ({origin}): {hint} acker config show lists all settings"
    value = shown(name, values.get(name))
    message = finding["msg"][:1].lower() + finding["msg"][1:]
    return f"{name} cannot be {value!r} ({origin}): {message}; {how_to_set(name)}"


def _prefixes(name: str) -> list[str]:
    """The name and what it begins with, part by part."""
    parts = name.split(".")
    return [".".join(parts[:length]) for length in range(len(parts), 0, -1)]


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
