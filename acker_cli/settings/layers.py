"""Where settings come from, one layer over another: flags, environment, TOML file, defaults."""

import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError
from pydantic_settings import EnvSettingsSource, TomlConfigSettingsSource
from pydantic_settings.exceptions import SettingsError as UnreadableVariableError

from acker_cli.errors import SettingsError
from acker_cli.settings import DEFAULT, LoadedSettings, names
from acker_cli.settings.sections import Settings

CONFIG_VARIABLE: Final = "ACKER_CONFIG"

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
        settings = Settings(**names.nest(values))
    except ValidationError as error:
        raise SettingsError(_explain(error, values, origins)) from error
    return LoadedSettings(settings, origins, path)


def _config_path(chosen: Path | None) -> Path | None:
    by = "--config"
    if chosen is None and (given := os.environ.get(CONFIG_VARIABLE)):
        chosen, by = Path(given).expanduser(), CONFIG_VARIABLE
    if chosen is None:
        usual = Path(names.FILE_NAME).absolute()
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
    return {name: (value, f"file {path}") for name, value in names.flatten(read).items()}


def _environment_layer() -> _Layer:
    try:
        values = names.flatten(EnvSettingsSource(Settings)())
    except UnreadableVariableError as error:
        raise SettingsError(
            f"{error}: a variable that stands for a whole section holds JSON; set one for each value instead, "
            "such as ACKER_WORKER__LOG_INTERVAL_S=5"
        ) from error
    present = {variable.upper(): variable for variable, value in os.environ.items() if value}
    return {name: (value, f"environment {_variable_of(name, present)}") for name, value in values.items()}


def _variable_of(name: str, present: Mapping[str, str]) -> str:
    # A section may be given as a whole, as JSON.
    spelled = [names.variable(name), *map(names.variable, _prefixes(name)[1:])]
    return next((present[variable] for variable in spelled if variable in present), spelled[0])


def _flag_layer(bootstrap_servers: str | None, assignments: Sequence[str]) -> _Layer:
    layer: _Layer = {}
    for assignment in assignments:
        written, separator, value = assignment.partition("=")
        if not separator or not written:
            raise SettingsError(f"--set takes NAME=VALUE, such as --set worker.log_interval_s=5, not {written!r}")
        name = names.name_of(written)
        if names.is_secret(name):
            raise SettingsError(
                f"{name} cannot be set with --set, because all users of the machine can read command lines: set it "
                f"with {names.variable(name)}, or {names.file_key(name)} in {names.FILE_NAME}"
            )
        layer[name] = value, "flag --set"
    if bootstrap_servers:
        layer[names.SERVERS] = bootstrap_servers, f"flag {names.SERVERS_FLAG}"
    return layer


def _explain(error: ValidationError, values: Mapping[str, Any], origins: Mapping[str, str]) -> str:
    """The first finding as one line."""
    finding = error.errors(include_url=False)[0]
    written = names.name_of(".".join(str(part) for part in finding["loc"]))
    # Behind the name, pydantic says which member of a union it tried.
    name = next((known for known in _prefixes(written) if known in origins), written)
    origin = origins.get(name) or next((o for n, o in origins.items() if n.startswith(f"{name}.")), DEFAULT)
    if finding["type"] == "extra_forbidden":
        nearest = names.nearest(name)
        hint = f"did you mean {nearest}?" if nearest else "take it out"
        return f"unknown setting {name} ({origin}): {hint} acker config show lists all settings"
    value = names.shown(name, values.get(name))
    message = finding["msg"][:1].lower() + finding["msg"][1:]
    return f"{name} cannot be {value!r} ({origin}): {message}; {names.how_to_set(name)}"


def _prefixes(name: str) -> list[str]:
    """The name and what it begins with, part by part."""
    parts = name.split(".")
    return [".".join(parts[:length]) for length in range(len(parts), 0, -1)]
