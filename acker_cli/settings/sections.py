"""What can be set, and its defaults; `layers` reads the sources."""

from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

ENV_PREFIX: Final = "ACKER_"
ENV_DELIMITER: Final = "__"

KafkaProperties = dict[str, bool | int | float | str]
"""librdkafka properties by their own names, such as `sasl.mechanism`."""

_UserPath = Annotated[Path, AfterValidator(Path.expanduser)]
_Port = Annotated[int, Field(ge=0, le=65535)]


class _Section(BaseModel):
    # A finding would show what was given, which may be a secret in the wrong place.
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class WorkerSection(_Section):
    """`worker`: how an acker worker goes about its work.

    Attributes:
        commit_interval_s: seconds between commits; what was not committed is folded again after a crash.
        log_interval_s: seconds between lines in the log about what it did.
    """

    commit_interval_s: float = Field(default=1.0, gt=0)
    log_interval_s: float = Field(default=10.0, gt=0)


class LocalKafkaSection(_Section):
    """`local_kafka`: the embedded broker.

    Attributes:
        data_dir: where its files lie, to be used again by the next start; temporary unless set.
        port: where it listens; a free one unless set.
        heap: the most that Java may use for its heap, as in `-Xmx`.
        cache: where Kafka's jars are kept.
        ivy_settings: an Ivy settings file that says where jars are fetched from; Maven Central unless set.
        properties: broker properties.
    """

    data_dir: _UserPath | None = None
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    heap: str = Field(default="512m", pattern=r"^\d+[kKmMgG]?$")
    cache: _UserPath | None = None
    ivy_settings: _UserPath | None = None
    properties: dict[str, str] = Field(default_factory=dict, repr=False)


class MetricsSection(_Section):
    """`metrics`: what `acker worker` and `acker run` serve to Prometheus and to health checks.

    Attributes:
        port: where `/metrics`, `/health` and `/live` are; 0 takes a free one; nothing is served unless set.
        host: the address to listen at; only this machine reaches the default.
        stuck_after_s: seconds without a turn after which a loop is stuck; loops report their turns twice a second.
        stalled_after_s: seconds without progress, though there is work, after which a process is unhealthy.
    """

    port: _Port | None = None
    host: str = Field(default="127.0.0.1", min_length=1)
    stuck_after_s: float = Field(default=30.0, ge=1)
    stalled_after_s: float = Field(default=60.0, ge=1)


class DashboardSection(_Section):
    """`dashboard`: what `acker dashboard` serves to browsers.

    Attributes:
        host: the address to listen at; only this machine reaches the default.
        port: where it listens; 0 takes a free one.
        token: the secret of those who may look; made at every start unless set.
        names: names by which browsers ask for this machine, separated by commas, beside `localhost` and addresses.
        certificate: file with the certificate for HTTPS, in PEM; plain HTTP without.
        key: file with its key.
    """

    host: str = Field(default="127.0.0.1", min_length=1)
    port: _Port = 8420
    token: str | None = Field(default=None, repr=False)
    names: str = ""
    certificate: str | None = None
    key: str | None = None


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
    topics: TopicsSection = TopicsSection()
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003 - these four are the base class's
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Takes only what it is given: `layers` reads the sources, to know where each value came from."""
        return (init_settings,)

    @property
    def is_embedded(self) -> bool:
        """Whether no cluster is configured, so that the embedded broker is the one to use."""
        return not self.kafka.get("bootstrap.servers")

    @property
    def bootstrap_servers(self) -> str:
        return str(self.kafka["bootstrap.servers"])
