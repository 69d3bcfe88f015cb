"""A status as sentences, and as JSON with times in milliseconds since the epoch."""

from collections.abc import Iterator
from typing import Any, Final

from inspection.message_status.verdict import ACKED, DEAD_LETTER, LastFailure, MessageStatus, SourceMessage, State
from inspection.notation import counted, show_root, show_time

_HOUR_S: Final = 3_600
_MINUTE_S: Final = 60
_DAY_S: Final = 86_400
_TENTHS_BELOW_S: Final = 10


def heading(status: MessageStatus) -> str:
    message = status.message
    words = [f"{message.name}, which `{status.spout}` of {status.topology} reads"]
    if message.key is not None:
        words.append(f"key {key_as_text(message.key)}")
    if message.at_ms is not None and message.at_ms > 0:
        words.append(f"written {show_time(message.at_ms)}")
    return ", ".join(words)


def sentences(status: MessageStatus, now_ms: int) -> Iterator[str]:
    """The state first; durations count up to `now_ms`."""
    yield _state(status, now_ms)
    if status.trace and not status.is_done:
        yield f"tree {show_root(status.root or 0)}: {status.trace}"
    if status.failure is not None and not status.is_dead_letter:
        yield f"last failure: {_failure(status.failure)}"
    yield from status.remarks


def _state(status: MessageStatus, now_ms: int) -> str:
    if status.state is State.DONE:
        return f"done{_outcome(status)}"
    attempt = "" if status.attempt is None else f" attempt {status.attempt}"
    if status.state is State.OPEN:
        return f"open{attempt and f':{attempt}'}{_where(status)}{_since(status.since_ms, now_ms)}"
    if status.state is State.WAITING:
        at = "" if status.since_ms is None else f" {show_time(status.since_ms)}"
        return f"waiting for a retry:{attempt} failed{at}{_where(status)}"
    ahead = status.ahead or 0
    if not ahead:
        return "not read yet: it is the next message of its partition"
    return f"not read yet: {counted(ahead, 'message')} of its partition before it"


def _outcome(status: MessageStatus) -> str:
    attempt = "" if status.attempt is None else f", in attempt {status.attempt}"
    at = "" if status.since_ms is None else f" {show_time(status.since_ms)}"
    if status.outcome == ACKED:
        return f": acked{at}{attempt}"
    if status.outcome == DEAD_LETTER:
        letter = status.dead_letter
        shown = "" if letter is None else f"; acker dead-letters show {status.topology} {letter}"
        why = "" if status.failure is None else f": {_failure(status.failure, with_time=False)}"
        attempts = "" if status.attempt is None else f" after {counted(status.attempt, 'attempt')}"
        return f": it became a dead letter{at}{attempts}{why}{shown}"
    return f": {status.outcome} by translate{at}" if status.outcome else ""


def _where(status: MessageStatus) -> str:
    names = [f"`{each.component}`" for each in status.components]
    return f" at {', '.join(names)}" if names else ""


def _since(since_ms: int | None, now_ms: int) -> str:
    if since_ms is None:
        return ""
    return f" since {show_time(since_ms)}, for {duration(now_ms - since_ms)}"


def _failure(failure: LastFailure, *, with_time: bool = True) -> str:
    by = f" by `{failure.component}`" if failure.component else ""
    text = f": {failure.message}" if failure.message else ""
    at = f"{show_time(failure.at_ms)}, " if with_time and failure.at_ms is not None else ""
    return f"{at}{failure.reason}{by}{text}"


def duration(ms: int) -> str:
    """A duration in its largest unit; of less than ten seconds, tenths."""
    seconds = max(0, ms) / 1_000
    for size, unit in ((_DAY_S, "d"), (_HOUR_S, "h"), (_MINUTE_S, "min")):
        if seconds >= size:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds:.1f} s" if seconds < _TENTHS_BELOW_S else f"{seconds:.0f} s"


def key_as_text(key: bytes) -> str:
    """A key in UTF-8; as hexadecimal digits after `0x` if it is not text."""
    try:
        text = key.decode()
    except UnicodeDecodeError:
        return f"0x{key.hex()}"
    return text if text.isprintable() else f"0x{key.hex()}"


def status_as_json(status: MessageStatus, now_ms: int) -> dict[str, Any]:
    failure = status.failure
    return {
        "topology": status.topology,
        "spout": status.spout,
        **_message(status.message),
        "state": str(status.state),
        "outcome": status.outcome,
        "attempt": status.attempt,
        "since_ms": status.since_ms,
        "components": [
            {"component": each.component, "tuples": each.tuples, "since_ms": each.since_ms}
            for each in status.components
        ],
        "failure": failure
        and {
            "reason": failure.reason,
            "component": failure.component,
            "message": failure.message,
            "at_ms": failure.at_ms,
        },
        "ahead": status.ahead,
        "root": None if status.root is None else show_root(status.root),
        "dead_letter": status.dead_letter,
        "sentences": [*sentences(status, now_ms)],
    }


def _message(message: SourceMessage) -> dict[str, Any]:
    return {
        "topic": message.topic,
        "partition": message.partition,
        "offset": message.offset,
        "key": None if message.key is None else key_as_text(message.key),
        "at_ms": message.at_ms,
    }
