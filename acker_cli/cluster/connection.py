"""The Kafka that a command works on: the embedded broker, or the cluster that is configured."""

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from rich.console import Console

from acker_cli.errors import SettingsError
from acker_cli.settings import DEFAULT, LoadedSettings
from acker_cli.settings.layers import SERVERS, how_to_set
from acker_cli.settings.sections import KafkaProperties, LocalKafkaSection

if TYPE_CHECKING:
    from local_kafka import LocalKafka

# Access to a cluster; the embedded broker takes none of it.
_ACCESS: Final = ("bootstrap.servers", "metadata.broker.list", "security.", "sasl.", "ssl.", "enable.ssl.")
_WRONG_BY_ITSELF: Final = ("No such configuration property", "Invalid value")


def configured_kafka(loaded: LoadedSettings) -> KafkaProperties:
    """The cluster of the settings; an error if none is set, or a Kafka property cannot be used."""
    if loaded.settings.is_embedded:
        raise SettingsError(f"no Kafka cluster is set: {how_to_set(SERVERS)}; acker kafka starts one")
    check_properties(loaded.settings.kafka, loaded)
    return loaded.settings.kafka


@contextmanager
def embedded_kafka(loaded: LoadedSettings, console: Console) -> Iterator[KafkaProperties]:
    """Starts the embedded broker, and stops it in the end."""
    kept = {name: value for name, value in loaded.settings.kafka.items() if not name.startswith(_ACCESS)}
    check_properties(kept, loaded)
    broker = embedded_broker(loaded.settings.local_kafka, console)
    try:
        broker.start()
        yield {**kept, "bootstrap.servers": broker.bootstrap_servers}
    finally:
        broker.stop()


def embedded_broker(section: LocalKafkaSection, console: Console) -> "LocalKafka":
    """The embedded broker of the settings, not started yet."""
    from local_kafka import LocalKafka
    from local_kafka.distribution import CACHE_VARIABLE, IVY_SETTINGS_VARIABLE

    for variable, path in ((CACHE_VARIABLE, section.cache), (IVY_SETTINGS_VARIABLE, section.ivy_settings)):
        if path is not None:
            os.environ[variable] = str(path)
    return LocalKafka(
        data_dir=section.data_dir, port=section.port, properties=section.properties, heap=section.heap, console=console
    )


def check_properties(kafka: KafkaProperties, loaded: LoadedSettings) -> None:
    """Has librdkafka check these properties; an error names where the property was set."""
    refused = _refusal(kafka)
    if refused is None:
        return
    for name, value in kafka.items():
        alone = _refusal({name: value})
        # Some only make sense together with others; alone they are refused for what is missing.
        if alone is not None and alone.startswith(_WRONG_BY_ITSELF):
            setting = f"kafka.{name}"
            origin = loaded.origins.get(setting, DEFAULT)
            raise SettingsError(f"{setting} cannot be used ({origin}): {alone}; {how_to_set(setting)}")
    raise SettingsError(f"the Kafka settings do not fit together: {refused}. See them with: acker config show")


def _refusal(kafka: KafkaProperties) -> str | None:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    try:
        AdminClient({**kafka, "log_level": 0})
    except KafkaException as error:
        return str(error.args[0].str())
    except (TypeError, ValueError) as error:
        return str(error)
    return None


def only_topology(topologies: Collection[str], how: str = "") -> str:
    """The only topology of a cluster; an error if there are several, which ends with `how` to name one."""
    if not topologies:
        from kafka_clients.errors import UnknownTopologyError

        raise UnknownTopologyError("", [])
    if len(topologies) > 1:
        raise SettingsError(f"say which topology{how}: the cluster has {', '.join(sorted(topologies))}")
    (only,) = topologies
    return only
