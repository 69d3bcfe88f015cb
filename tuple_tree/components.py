"""The components of a manifest: spouts, bolts with their states, and what a bolt receives."""

from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from tuple_tree.streams import Field as StreamField
from tuple_tree.streams import StreamDeclaration

DEFAULT_TIMEOUT_MS: Final = 30_000
Grouping = Literal[
    "shuffle", "local_or_shuffle", "none", "fields", "partial_key", "global", "all", "direct", "custom", "local"
]
"""How the receiving task is picked. With `local` the bolt is chained: it runs in the task that emits, and its tuples do
not pass through Kafka. `local_or_shuffle` and `none` are a `shuffle`; the builder turns the former into `local` where
the bolt can be chained. `custom` is code of the component that emits."""

KEYED: Final = ("fields", "partial_key")  # groupings by fields; the record's key holds them
SHUFFLES: Final = ("shuffle", "local_or_shuffle", "none")  # groupings that follow the load of the tasks
NEED_CODE: Final = ("custom", "direct", "partial_key")
"""Groupings that only code of the emitting component can follow: its own, or what it remembers of its emits."""

STATE_VALUE: Final = "value"  # the name of the stream that describes the value of a state
STATE_CODECS: Final = ("json", "avro")  # of the values of a state: any tool can read them


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Subscription(Frozen):
    """A subscription of a bolt to a stream of a component.

    Attributes:
        grouping: how the receiving task is picked.
        fields: what a fields or partial key grouping groups by.
    """

    source: str
    stream: str
    grouping: Grouping
    fields: tuple[str, ...] = ()


OutcomesCodec = Literal["json", "avro"]


class OutcomesManifest(Frozen):
    """Where a spout writes the outcomes of its messages.

    Attributes:
        topic: the topic of the user.
        codec: of its records.
    """

    topic: str
    codec: OutcomesCodec = "json"


class SpoutManifest(Frozen):
    """A spout: where tuples enter.

    Attributes:
        timeout_ms: how long its trees may make no progress, in milliseconds.
        max_pending: how many trees a task may have open.
        outcomes: where it writes the outcomes of its messages; None if it does not.
    """

    kind: Literal["spout"] = "spout"
    name: str
    tasks: int = Field(default=1, ge=1)
    streams: tuple[StreamDeclaration, ...] = ()
    timeout_ms: int = Field(default=DEFAULT_TIMEOUT_MS, ge=1)
    max_pending: int = Field(default=10_000, ge=1)
    external: bool = False
    outcomes: OutcomesManifest | None = None

    @model_serializer(mode="wrap")
    def _without_absent_members(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # Readers that do not support outcomes refuse a member that they do not know.
        members: dict[str, Any] = dump(self)
        if self.outcomes is None:
            members.pop("outcomes", None)
        return members


WINDOW_START: Final = StreamField(name="window_start", type="long")
"""The last field of the key of a state of windows: milliseconds since the epoch."""


class StateManifest(Frozen):
    """The keyed state of a bolt: a value for each key, with `{topology}.state.{bolt}` as its changelog.

    Attributes:
        value: the fields of a value, with the codec of the changelog's records, json or avro.
        is_single: whether a value is that of its one field alone.
        key: the grouping fields of the bolt's first subscription, with their types; none of a global grouping.
        expire_after_ms: how long a value that is not changed is kept; None: until it is deleted.
        windows: of a state whose values are those of windows, and whose key ends with `window_start`, when there is a
            result: at each change, or when a window closes. Those of closed windows are messages of the topic
            `{topology}.results.{bolt}`. None: a value is that of its key alone.
    """

    value: StreamDeclaration
    is_single: bool = False
    key: tuple[StreamField, ...]
    expire_after_ms: int | None = Field(default=None, ge=1)
    windows: Literal["change", "close"] | None = None

    @model_validator(mode="after")
    def _check(self) -> "StateManifest":
        if self.value.name != STATE_VALUE or self.value.direct:
            raise ValueError(f"the value of a state is a stream {STATE_VALUE!r} that is not direct")
        if self.value.codec not in STATE_CODECS:
            raise ValueError(f"a state has codec {' or '.join(STATE_CODECS)}, not {self.value.codec}")
        if self.is_single and len(self.value.fields) > 1:
            raise ValueError(f"a state of one value has one field, not {', '.join(self.value.field_names)}")
        if self.windows is not None and self.key[-1] != WINDOW_START:
            raise ValueError(f"the last field of the key of windows is {WINDOW_START.name}, a long")
        return self

    @property
    def grouping_key(self) -> tuple[StreamField, ...]:
        """The fields of the key without the start of a window."""
        return self.key if self.windows is None else self.key[:-1]


class BoltManifest(Frozen):
    """A bolt: what receives tuples, and may emit others.

    Attributes:
        state: its keyed state; None if it has none.
        answers: whether it answers the messages of spouts, in `{topology}.answers`.
    """

    kind: Literal["bolt"] = "bolt"
    name: str
    tasks: int = Field(default=1, ge=1)
    streams: tuple[StreamDeclaration, ...] = ()
    subscriptions: tuple[Subscription, ...]
    external: bool = False
    state: StateManifest | None = None
    answers: bool = False

    @model_validator(mode="before")
    @classmethod
    def _without_removed_members(cls, members: Any) -> Any:
        # Version 0.2 wrote this of bolts that held tuples in windows.
        return {k: v for k, v in members.items() if k != "recognises_replays"} if isinstance(members, dict) else members

    @property
    def is_chained(self) -> bool:
        """Whether it runs in the tasks of the component that it receives from."""
        return any(each.grouping == "local" for each in self.subscriptions)

    @model_serializer(mode="wrap")
    def _without_absent_members(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # Readers that do not support states refuse a member that they do not know.
        members: dict[str, Any] = dump(self)
        if self.state is None:
            members.pop("state", None)
        if not self.answers:
            members.pop("answers", None)
        return members


Component = SpoutManifest | BoltManifest


def check_state(bolt: BoltManifest, state: StateManifest) -> None:
    """Raises `ValueError` if a bolt cannot have a state."""
    if bolt.external:
        raise ValueError(f"bolt {bolt.name!r} is external, so the SDK cannot keep a state of it: remove its state")
    first = next(iter(bolt.subscriptions), None)
    fields = tuple(field.name for field in state.grouping_key)
    if first is None or first.grouping not in ("fields", "global"):
        raise ValueError(
            f"bolt {bolt.name!r} has a state, whose keys are the fields of its first subscription: use "
            "fields_grouping, or global_grouping for one key"
        )
    if first.fields != fields:
        raise ValueError(
            f"the state of bolt {bolt.name!r} has the key {', '.join(fields)}, but its first subscription groups by "
            f"{', '.join(first.fields)}"
        )
