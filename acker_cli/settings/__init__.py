"""Settings: what can be set (`sections`), how it is spelled, and where it was set (`layers`)."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from acker_cli.errors import SettingsError

if TYPE_CHECKING:
    from acker_cli.settings.sections import KafkaProperties, Settings

DEFAULT: Final = "default"
_WRONG_BY_ITSELF: Final = ("No such configuration property", "Invalid value")


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

    def cluster(self) -> "KafkaProperties":
        """The properties of the configured cluster; an error if none is set, or a property cannot be used."""
        from acker_cli.settings.layers import SERVERS, how_to_set

        if self.settings.is_embedded:
            raise SettingsError(f"no Kafka cluster is set: {how_to_set(SERVERS)}; acker kafka starts one")
        self.check_kafka(self.settings.kafka)
        return self.settings.kafka

    def check_kafka(self, kafka: "KafkaProperties") -> None:
        """Has librdkafka check these properties; an error names where the property was set."""
        from acker_cli.settings.layers import how_to_set

        refused = _refusal(kafka)
        if refused is None:
            return
        for name, value in kafka.items():
            alone = _refusal({name: value})
            # Some only make sense together with others; alone they are refused for what is missing.
            if alone is not None and alone.startswith(_WRONG_BY_ITSELF):
                setting = f"kafka.{name}"
                origin = self.origins.get(setting, DEFAULT)
                raise SettingsError(f"{setting} cannot be used ({origin}): {alone}; {how_to_set(setting)}")
        raise SettingsError(f"the Kafka settings do not fit together: {refused}. See them with: acker config show")


def _refusal(kafka: "KafkaProperties") -> str | None:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    try:
        AdminClient({**kafka, "log_level": 0})
    except KafkaException as error:
        return str(error.args[0].str())
    except (TypeError, ValueError) as error:
        return str(error)
    return None
