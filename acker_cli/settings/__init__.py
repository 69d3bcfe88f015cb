"""Settings: what can be set (`sections`), how it is spelled, and where it was set (`layers`)."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from acker_cli.settings.sections import Settings

DEFAULT: Final = "default"


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """The settings, by name where each was set (what is missing is a default), and the TOML file that was read."""

    settings: "Settings"
    origins: Mapping[str, str]
    config_file: Path | None

    def rows(self) -> list[tuple[str, object, str]]:
        """Name, value (secrets masked) and origin of every setting."""
        from acker_cli.settings.layers import SERVERS, flatten, shown

        values = {SERVERS: None, **flatten(self.settings.model_dump(mode="json"))}
        return [(name, shown(name, value), self.origins.get(name, DEFAULT)) for name, value in sorted(values.items())]
