"""The statistics of a process of a topology, sent once a second as a record of `{topology}.stats`.

Counts are since the start of the process, so a reader takes differences, and a record that is lost costs nothing.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal

from tuple_tree.errors import StatsRecordError

Kind = Literal["component", "acker"]  # what a process is: one of a spout or a bolt, or an acker worker
VERSION: Final = 1
LARGEST_ERROR: Final = 500  # characters of an error that are kept
METRIC: Final = "metric"


@dataclass(frozen=True, slots=True)
class Metric:
    """The Prometheus metric of a field of statistics; fields of one name differ in their label.

    A counter's name ends with `_total`, and counts from the start of the process. The others are gauges; of a tuple it
    is the length, of a mapping the sum.
    """

    name: str
    help: str
    label: tuple[str, str] | None
    divisor: float


def metric_field(
    name: str,
    help_: str,
    *,
    default: Any = 0,
    divisor: float = 1.0,
    label: tuple[str, str] | None = None,
    of_tasks: bool = False,
) -> Any:
    """A field of statistics that is also a metric; a mapping if it is `of_tasks`."""
    metadata = {METRIC: Metric(name, help_, label, divisor)}
    return field(default_factory=dict, metadata=metadata) if of_tasks else field(default=default, metadata=metadata)


def metric_fields(kind: type[Any]) -> dict[str, Metric]:
    return {each.name: each.metadata[METRIC] for each in fields(kind) if METRIC in each.metadata}


@dataclass(frozen=True, slots=True)
class StatsRecord:
    kind: Kind
    name: str  # of its component; `acker` for an acker worker
    host: str
    pid: int
    run: str  # drawn at its start, because two processes may have the same id one after the other
    uptime_ms: int  # since its start, by a clock that only rises
    ended: bool = False  # whether this is its last record
    stats: Mapping[str, Any] = field(default_factory=dict)
    at_ms: int = 0  # when the broker took the record, in milliseconds since 1970; 0 before
    sent_ms: int = 0  # when it was sent, by the clock of its machine; 0 if that is not known
    ended_by: str = ""  # the error by which the process has ended; empty if it runs, or has ended in order

    @property
    def process(self) -> str:
        return f"{self.host}/{self.pid}"

    @property
    def key(self) -> bytes:
        return f"{self.kind}/{self.name}/{self.host}/{self.pid}".encode()

    def to_json(self) -> bytes:
        """The value of the record; the rest stands in its key and its timestamp."""
        members = {
            "v": VERSION,
            "run": self.run,
            "uptime_ms": self.uptime_ms,
            "sent_ms": self.sent_ms,
            "ended": self.ended,
            **({"ended_by": self.ended_by} if self.ended_by else {}),
            "stats": self.stats,
        }
        return json.dumps(members, separators=(",", ":")).encode()

    @classmethod
    def of(cls, key: bytes | None, value: bytes | None, at_ms: int) -> "StatsRecord":
        """Reads a record, which the broker took at `at_ms`; unknown members are skipped. Raises `StatsRecordError`."""
        try:
            kind, name, host, pid = (key or b"").decode().split("/")
            values = json.loads(value or b"")
            if kind not in ("component", "acker") or values["v"] != VERSION or not isinstance(values["stats"], dict):
                raise ValueError(f"kind {kind!r}, version {values['v']!r}")
            run, uptime_ms, ended = str(values["run"]), int(values["uptime_ms"]), bool(values["ended"])
            kind_: Kind = "acker" if kind == "acker" else "component"
            ended_by, sent_ms = str(values.get("ended_by", "")), int(values.get("sent_ms", 0))
            of = (kind_, name, host, int(pid), run, uptime_ms, ended, values["stats"], at_ms, sent_ms, ended_by)
            return cls(*of)
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise StatsRecordError(
                f"not a record of stats ({error!r}), its key is {key!r}: do all processes run the same version?"
            ) from error


def filter_known_fields(values: Mapping[str, Any], empty: object) -> dict[str, Any]:
    """The members of an object that a snapshot has as well; others are of another version, and skipped.

    Raises `ValueError` if one is of another kind.
    """
    known = {}
    for field_ in fields(empty):  # type: ignore[arg-type]
        if field_.name not in values:
            continue
        value, like = values[field_.name], getattr(empty, field_.name)
        for kind in (int | float, str):
            if isinstance(like, kind) and not isinstance(value, kind):
                raise ValueError(f"{field_.name} is {value!r}")
        known[field_.name] = value
    return known
