"""Settings, their defaults and descriptions, from which the reference is generated; `layers` reads the sources."""

import socket
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

ENV_PREFIX: Final = "ACKER_"
ENV_DELIMITER: Final = "__"
_HOSTNAME: Final = "{hostname}"
_LOOPBACK: Final = "127.0.0.1"
_HOST: Final = "the address that it listens at; only this machine reaches the default"
_CERTIFICATE: Final = "PEM file with the certificate for HTTPS; HTTP without"
_KEY: Final = "PEM file with its key"

KafkaProperties = dict[str, bool | int | float | str]
"""librdkafka properties by their own names, such as `sasl.mechanism`."""

_UserPath = Annotated[Path, AfterValidator(Path.expanduser)]
_Port = Annotated[int, Field(ge=0, le=65535)]


class _Section(BaseModel):
    # A finding would show what was given, which may be a secret in the wrong place.
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class WorkerSection(_Section):
    """`worker`: an acker worker."""

    commit_interval_s: float = Field(
        default=1.0, gt=0, description="seconds between commits; after a crash what was not committed is read again"
    )
    log_interval_s: float = Field(default=10.0, gt=0, description="seconds between log lines with statistics")


class LocalKafkaSection(_Section):
    """`local_kafka`: the embedded broker."""

    data_dir: _UserPath | None = Field(default=None, description="its data, kept for the next start; else temporary")
    port: Annotated[int, Field(ge=1, le=65535)] | None = Field(default=None, description="unless set, a free one")
    heap: str = Field(default="512m", pattern=r"^\d+[kKmMgG]?$", description="the largest Java heap, as in `-Xmx`")
    cache: _UserPath | None = Field(default=None, description="Kafka's jars; unless set, `~/.cache/kafka-acker`")
    repository: str | None = Field(
        default=None, description="the address of a Maven repository, such as a mirror; unless set, Maven Central"
    )
    properties: dict[str, str] = Field(
        default_factory=dict,
        repr=False,
        description="any property of the broker, such as `num.io.threads`",
    )


class MetricsSection(_Section):
    """`metrics`: `/metrics`, `/health` and `/live` of `acker worker` and `acker run`."""

    port: _Port | None = Field(default=None, description="also `--metrics-port`; 0 for a free one; off unless set")
    host: str = Field(default=_LOOPBACK, min_length=1, description=_HOST)
    stuck_after_s: float = Field(
        default=30.0,
        ge=1,
        description="seconds without a turn of its loop after which a process is unhealthy",
    )


class DashboardSection(_Section):
    """`dashboard`: what `acker dashboard` serves to browsers."""

    host: str = Field(default=_LOOPBACK, min_length=1, description=f"also `--host`: {_HOST}")
    port: _Port = Field(default=8420, description="also `--port`; 0 for a free one")
    token: str | None = Field(default=None, repr=False, description="secret of its readers; unless set, a random one")
    names: str = Field(
        default="", description="host names by which browsers reach it, separated by commas, besides `localhost`"
    )
    certificate: str | None = Field(default=None, description=_CERTIFICATE)
    key: str | None = Field(default=None, description=_KEY)


class GatewaySection(_Section):
    """`gateway`: how `acker gateway` takes messages over HTTP."""

    host: str = Field(default=_LOOPBACK, min_length=1, description=f"also `--host`: {_HOST}")
    port: _Port = Field(default=8421, description="also `--port`; 0 for a free one")
    token: str | None = Field(
        default=None, repr=False, description="secret of its clients; not needed at a loopback address"
    )
    certificate: str | None = Field(default=None, description=_CERTIFICATE)
    key: str | None = Field(default=None, description=_KEY)
    max_open: int = Field(default=1_000, ge=1, description="messages that wait for their outcomes at a time")
    max_body_bytes: int = Field(default=1_000_000, ge=1, description="bytes of the body of a request, at most")
    timeout_s: float = Field(default=30.0, gt=0, description="seconds that a request without a timeout waits")
    max_timeout_s: float = Field(default=600.0, gt=0, description="seconds that any request waits, at most")
    stop_timeout_s: float = Field(default=30.0, ge=0, description="seconds that a stop waits for open requests")


class StateSection(_Section):
    """`state`: where processes of bolts keep stores of their states."""

    directory: _UserPath | None = Field(
        default=None, description="stores on disk, with `kafka-acker[rocksdb]`; in memory unless set"
    )


class TopicsSection(_Section):
    """`topics`: the topics that commands create."""

    replication_factor: int = Field(default=-1, ge=-1, description="copies of each topic; -1 for the broker's default")


class Settings(BaseSettings):
    """All settings of `acker`."""

    model_config = SettingsConfigDict(
        frozen=True,
        extra="forbid",
        hide_input_in_errors=True,
        env_prefix=ENV_PREFIX,
        env_nested_delimiter=ENV_DELIMITER,
        env_ignore_empty=True,
    )

    kafka: KafkaProperties = Field(
        default_factory=dict,
        repr=False,
        description="any librdkafka property, as in `kafka.bootstrap.servers` (also `--bootstrap-servers`)",
    )
    worker: WorkerSection = WorkerSection()
    local_kafka: LocalKafkaSection = LocalKafkaSection()
    metrics: MetricsSection = MetricsSection()
    dashboard: DashboardSection = DashboardSection()
    gateway: GatewaySection = GatewaySection()
    topics: TopicsSection = TopicsSection()
    state: StateSection = StateSection()
    instance: Annotated[str, Field(pattern=r"^([A-Za-z0-9._-]|\{hostname\})+$", max_length=200)] | None = Field(
        default=None,
        description="name of a process of `acker run --component` or `acker worker` as a static member of its group, "
        "if it is restarted after a kill; `{hostname}` stands for the name of the machine",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="least that is logged")

    @classmethod
    def settings_customise_sources(  # type: ignore[override]
        cls, settings_cls: type[BaseSettings], init_settings: PydanticBaseSettingsSource, **_: Any
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        # Only what it is given: `layers` reads the other sources, to know where each value came from.
        del settings_cls
        return (init_settings,)

    @property
    def instance_name(self) -> str | None:
        """The name of this process as a static member of its group; None if it is a dynamic one."""
        return None if self.instance is None else self.instance.replace(_HOSTNAME, socket.gethostname())

    @property
    def is_embedded(self) -> bool:
        """Whether no cluster is configured, so that the embedded broker is the one to use."""
        return not self.kafka.get("bootstrap.servers")
