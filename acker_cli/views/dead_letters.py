"""Dead letters for people and for programs."""

import base64
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.text import Text

from acker_cli.console import print_table
from inspection.dead_letters import DeadLetter, LetterPreviews
from inspection.previews import as_text, hex_dump, preview


def print_none(output: Console, searched: Mapping[str, int]) -> None:
    """Prints that there are none, or none that the filters take; `searched`: reason → letters that were read."""
    reasons = ", ".join(f"{reason} ({count:,})" for reason, count in sorted(searched.items()))
    read = f" that the filters take; those that were read have the reasons {reasons}" if reasons else ""
    output.print(f"no dead letters{read}")


def print_list(
    output: Console, shown: Sequence[DeadLetter], replays: Mapping[int, int], total: int, previews: LetterPreviews
) -> None:
    """Prints a line for each of `total` that is shown; `replays`: offset → when, in milliseconds since the epoch."""
    headings = ("letter", "when", "reason", "by", "from", "value", "replayed")
    rows = [
        (
            str(each.offset),
            _when(each.timestamp_ms),
            Text(each.reason, "red"),
            each.by or "-",
            each.place,
            previews.of(each, 40),
            _when(replays[each.offset]) if each.offset in replays else "-",
        )
        for each in shown
    ]
    print_table(output, headings, rows)
    if total > len(shown):
        output.print(f"{total - len(shown):,} earlier ones are not shown: --limit {total}")


def listed(letters: Iterable[DeadLetter], replays: Mapping[int, int], previews: LetterPreviews) -> list[dict[str, Any]]:
    return [{**_about(each, replays.get(each.offset)), "preview": previews.of(each)} for each in letters]


def print_shown(output: Console, letter: DeadLetter, replayed_ms: int | None, previews: LetterPreviews) -> None:
    about = {
        "letter": str(letter.offset),
        "when": _when(letter.timestamp_ms),
        "from": letter.place,
        "reason": letter.reason,
        "detail": letter.detail,
        "by": letter.by,
        "replayed": "never" if replayed_ms is None else _when(replayed_ms),
    }
    for name, text in about.items():
        output.print(f"{name:<9} {text}")
    for header, content in letter.headers:
        output.print(f"header    {header}: {preview(content, 1_000)}")
    values = previews.values(letter, 1_000)
    if values is not None:
        output.print(f"tuple     {values}")
    for name, value in (("key", letter.key), ("value", letter.value)):
        output.print(f"{name:<9} {'none' if value is None else f'{len(value):,} bytes'}")
        for line in _lines(value or b""):
            output.print(f"  {line}")


def shown(letter: DeadLetter, replayed_ms: int | None, previews: LetterPreviews) -> dict[str, Any]:
    return {
        **_about(letter, replayed_ms),
        "headers": [[name, _base64(value)] for name, value in letter.headers],
        "key": _base64(letter.key),
        "value": _base64(letter.value),
        "preview": previews.of(letter),
    }


def _about(letter: DeadLetter, replayed_ms: int | None) -> dict[str, Any]:
    return {
        "offset": letter.offset,
        "timestamp_ms": letter.timestamp_ms,
        "reason": letter.reason,
        "detail": letter.detail,
        "by": letter.by,
        "topic": letter.topic,
        "partition": letter.partition,
        "position": letter.position,
        "bytes": None if letter.value is None else len(letter.value),
        "replayed_ms": replayed_ms,
    }


def _lines(value: bytes) -> Iterable[str]:
    readable = as_text(value)
    return hex_dump(value) if readable is None else readable.splitlines()


def _when(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1_000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def _base64(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()
