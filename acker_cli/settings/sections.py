"""Settings and their defaults; `layers` reads the sources."""

import socket
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

ENV_PREFIX: Final = "ACKER_"
ENV_DELIMITER: Final = "__"
_HOSTNAME: Final = "{hostname}"

KafkaProperties = dict[str, bool | int | float | str]
"""librdkafka properties by their own names, such as `sasl.mechanism`."""

_UserPath = Annotated[Path, AfterValidator(Path.expanduser)]
_Port = Annotated[int, Field(ge=0, le=65535)]


class _Section(BaseModel):
    # A finding would show what was given, which may be a secret in the wrong place.
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class WorkerSection(_Section):
    """`worker`: an acker worker."""

    # Seconds between commits; what was not committed is folded again after a crash.
    commit_interval_s: float = Field(default=1.0, gt=0)
    log_interval_s: float = Field(default=10.0, gt=0)  # seconds between log lines about its work


class LocalKafkaSection(_Section):
    """`local_kafka`: the embedded broker."""

    data_dir: _UserPath | None = None  # kept for the next start; temporary unless set
    port: Annotated[int, Field(ge=1, le=65535)] | None = None  # a free one unless set
    heap: str = Field(default="512m", pattern=r"^\d+[kKmMgG]?$")  # the largest of Java, as in `-Xmx`
    cache: _UserPath | None = None  # of Kafka's jars
    ivy_settings: _UserPath | None = None  # a file that says where jars are fetched from; Maven Central unless set
    properties: dict[str, str] = Field(default_factory=dict, repr=False)  # of the broker


class MetricsSection(_Section):
    """`metrics`: what `acker worker` and `acker run` serve to Prometheus and to health checks."""

    port: _Port | None = None  # of `/metrics`, `/health` and `/live`; 0 takes a free one; nothing is served unless set
    host: str = Field(default="127.0.0.1", min_length=1)  # only this machine reaches the default
    # Seconds without a turn after which a loop is stuck; loops report their turns twice a second.
    stuck_after_s: float = Field(default=30.0, ge=1)


class DashboardSection(_Section):
    """`dashboard`: what `acker dashboard` serves to browsers."""

    host: str = Field(default="127.0.0.1", min_length=1)  # only this machine reaches the default
    port: _Port = 8420  # 0 takes a free one
    token: str | None = Field(default=None, repr=False)  # the secret of its readers; made at every start unless set
    names: str = ""  # names by which browsers ask for this machine, separated by commas, beside `localhost`
    certificate: str | None = None  # PEM file with the certificate for HTTPS; plain HTTP without
    key: str | None = None  # PEM file with its key


class GatewaySection(_Section):
    """`gateway`: how `acker gateway` takes messages over HTTP."""

    host: str = Field(default="127.0.0.1", min_length=1)  # only this machine reaches the default
    port: _Port = 8421  # 0 takes a free one
    token: str | None = Field(default=None, repr=False)  # of its clients; not needed at a loopback address
    certificate: str | None = None  # PEM file with the certificate for HTTPS; plain HTTP without
    key: str | None = None  # PEM file with its key
    max_open: int = Field(default=1_000, ge=1)  # messages that wait for their outcomes at a time
    max_body_bytes: int = Field(default=1_000_000, ge=1)
    timeout_s: float = Field(default=30.0, gt=0)  # of a request without a timeout
    max_timeout_s: float = Field(default=600.0, gt=0)  # of any request
    stop_timeout_s: float = Field(default=30.0, ge=0)  # for how long a stop waits for open requests


class StateSection(_Section):
    """`state`: where the processes of bolts keep their states, besides in their changelogs."""

    directory: _UserPath | None = None  # of stores on disk, in RocksDB; in memory unless set


class TopicsSection(_Section):
    """`topics`: the replication factor of each topic that is created; -1 takes the broker's default."""

    replication_factor: int = Field(default=-1, ge=-1)


class Settings(BaseSettings):
    """All settings of `acker`; `kafka` is for everything that talks to Kafka, `log_level` the least that is logged."""

    model_config = SettingsConfigDict(
        frozen=True,
        extra="forbid",
        hide_input_in_errors=True,
        env_prefix=ENV_PREFIX,
        env_nested_delimiter=ENV_DELIMITER,
        env_ignore_empty=True,
    )

    kafka: KafkaProperties = Field(default_factory=dict, repr=False)
    worker: WorkerSection = WorkerSection()
    local_kafka: LocalKafkaSection = LocalKafkaSection()
    metrics: MetricsSection = MetricsSection()
    dashboard: DashboardSection = DashboardSection()
    gateway: GatewaySection = GatewaySection()
    topics: TopicsSection = TopicsSection()
    state: StateSection = StateSection()
    # Name of a process of `acker run --component` or `acker worker` in its group, and of its successor after a kill.
    # `{hostname}` stands for the name of the machine.
    instance: Annotated[str, Field(pattern=r"^([A-Za-z0-9._-]|\{hostname\})+$", max_length=200)] | None = None
    log_level: Literal["debug", "info", "warning", "error"] = "info"

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
