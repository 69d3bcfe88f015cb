"""`acker dead-letters`."""

import base64
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from acker_cli.commands.options import JSON, argument, command, flag, option
from acker_cli.console import print_json, print_table, standard_output
from acker_cli.errors import SettingsError
from acker_cli.settings import LoadedSettings

if TYPE_CHECKING:
    from inspection.dead_letters import DeadLetter, LetterPreviews, Selection

_NAME = argument("TOPOLOGY", "The topology's name in acker.topologies.")
_REASON = option("WORD", "Only dead letters with this reason; repeatable.", "--reason")
_TOPIC = option("TOPIC", "Only dead letters from this topic; repeatable.", "--topic")
_COMPONENT = option("NAME", "Only dead letters of this component; repeatable.", "--component")
_SINCE = option("WHEN", "Only later ones: 90s, 30m, 2h or 1d ago, or 2026-03-01T12:00.", "--since")
_OFFSET = option("N", "Only this dead letter; repeatable.", "--offset", min=0)
_SHOWN: Final = ("offset", "timestamp_ms", "reason", "detail", "by", "topic", "partition", "position")


@command(
    "list",
    ("acker dead-letters list word-count", "the latest, and why"),
    ("acker dead-letters list word-count --component split --since 2h", "what one bolt could not use lately"),
    ("acker dead-letters list word-count --json", "the same for programs"),
)
def list_(
    loaded: LoadedSettings,
    name: str = _NAME,
    reason: list[str] | None = _REASON,
    topic: list[str] | None = _TOPIC,
    component: list[str] | None = _COMPONENT,
    since: str | None = _SINCE,
    offset: list[int] | None = _OFFSET,
    limit: int = option("N", "Only the latest N.", default=50, min=1),
    json_: bool = JSON,
) -> None:
    """List dead letters: time, reason, component, original position, and the beginning of the value.

    The first column is the offset, the argument of the other commands.
    """
    from collections import Counter, deque

    from acker_cli.cluster.replay import dead_letters_read
    from inspection.dead_letters import DeadLetter

    chosen = _selection(reason, topic, component, since, offset)
    replays: dict[int, int] = {}
    latest: deque[DeadLetter] = deque(maxlen=limit)
    total = 0
    searched: Counter[str] = Counter()
    with dead_letters_read(loaded.cluster(), name) as log:
        for entry in log.entries(since_ms=chosen.since_ms):
            if not isinstance(entry, DeadLetter):
                replays[entry.of] = entry.timestamp_ms
                continue
            searched[entry.reason] += 1
            if chosen.takes(entry):
                total += 1
                latest.append(entry)
        previews = log.previews()
    if json_:
        letters = [{**_about(each, replays.get(each.offset)), "preview": previews.of(each)} for each in latest]
        print_json({"topology": name, "total": total, "dead_letters": letters})
    elif latest:
        _print_list(latest, replays, total, previews)
    else:
        reasons = ", ".join(f"{reason} ({count:,})" for reason, count in sorted(searched.items()))
        read = f" that match the filters; the dead letters have the reasons {reasons}" if reasons else ""
        standard_output().print(f"no dead letters{read}")


@command(
    "show",
    ("acker dead-letters show word-count 17", "all of one: original position, reason, headers, payload"),
    ("acker dead-letters show word-count 17 --json", "the same for programs, bytes in base64"),
)
def show(
    loaded: LoadedSettings,
    name: str = _NAME,
    offset: int = argument("OFFSET", "The offset of the dead letter.", min=0),
    json_: bool = JSON,
) -> None:
    """Show a dead letter: its original position, reason, headers, key and value.

    For a tuple it shows the fields, too. Binary data are in hexadecimal.
    """
    from acker_cli.cluster.replay import dead_letters_read
    from inspection.dead_letters import DeadLetter
    from inspection.errors import DeadLettersError

    letter, replayed_ms = None, None
    with dead_letters_read(loaded.cluster(), name) as log:
        for entry in log.entries(start=offset):
            if isinstance(entry, DeadLetter):
                letter = entry if entry.offset == offset else letter
            elif entry.of == offset:
                replayed_ms = entry.timestamp_ms
        previews = log.previews()
    if letter is None:
        raise DeadLettersError(
            f"{log.topic} has no dead letter {offset}: acker dead-letters list {name} lists its dead letters"
        )
    if json_:
        print_json({"topology": name, **_as_json(letter, replayed_ms, previews)})
    else:
        _print_letter(letter, replayed_ms, previews)


@command(
    "replay",
    ("acker dead-letters replay word-count --offset 17", "one, after a look at it"),
    ("acker dead-letters replay word-count --reason exception --dry-run", "what would be written back"),
    ("acker dead-letters replay word-count --component split --yes", "all of a bolt that was fixed"),
    ("acker dead-letters replay word-count --topic lines --yes", "messages of the topic that a spout reads"),
)
def replay(
    loaded: LoadedSettings,
    name: str = _NAME,
    reason: list[str] | None = _REASON,
    topic: list[str] | None = _TOPIC,
    component: list[str] | None = _COMPONENT,
    since: str | None = _SINCE,
    offset: list[int] | None = _OFFSET,
    all_: bool = flag("--all", "Replay all dead letters, without a filter."),
    limit: int = option("N", "Only the oldest N; repeat the command for the next.", default=1_000, min=1),
    again: bool = flag("--again", "Include dead letters that were replayed before."),
    dry_run: bool = flag("--dry-run", "Only print what would be replayed."),
    yes: bool = flag("--yes", "Skip the prompt."),
    json_: bool = JSON,
) -> None:
    """Write dead letters back to their topics, each once.

    The record goes to the end of its original topic and partition, with its key, value and headers. In the same
    transaction a note goes into the dead letters, so a letter that was replayed is left out by the next replay, also if
    two run at a time or one is killed; --again replays it once more. Of one topology only one replay runs: one that
    begins ends the other.

    A tuple goes back to its bolt's inbox without its anchors: its trees have ended or were replayed under new roots, so
    an ack is not needed, and where one is still open, a second ack would only make it time out. It is processed as an
    untracked tuple, and is not replayed if it fails. Spouts replay failed messages by themselves: replay letters with
    the reason exception only, or expect some messages twice.

    A message of a spout's source goes back to that topic, which has to be named by --topic, and becomes a new message
    with a new tree. Ack batches and notices are not replayed: their trees have ended.
    """
    from acker_cli.cluster.replay import ReplayRequest, replay_letters

    chosen = _selection(reason, topic, component, since, offset)
    if not chosen and not all_:
        raise SettingsError("which ones? Give a filter, such as --offset or --reason, or --all")
    replay_letters(
        loaded.cluster(),
        ReplayRequest(name, chosen, limit, again=again),
        dry_run=dry_run,
        yes=yes,
        as_json=json_,
    )


def _selection(
    reason: list[str] | None,
    topic: list[str] | None,
    component: list[str] | None,
    since: str | None,
    offset: list[int] | None,
) -> "Selection":
    import time

    from inspection.dead_letters import Selection
    from inspection.notation import since_ms

    return Selection(
        frozenset(reason or ()),
        frozenset(topic or ()),
        frozenset(component or ()),
        None if since is None else since_ms(since, round(time.time() * 1_000)),
        frozenset(offset or ()),
    )


def _print_list(
    shown: "Sequence[DeadLetter]", replays: Mapping[int, int], total: int, previews: "LetterPreviews"
) -> None:
    """Prints a line for each of `total` that is shown; `replays`: offset → when, in milliseconds since the epoch."""
    from rich.text import Text

    output = standard_output()
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


def _print_letter(letter: "DeadLetter", replayed_ms: int | None, previews: "LetterPreviews") -> None:
    from inspection.previews import as_text, hex_dump, preview

    output = standard_output()
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
        readable = as_text(value or b"")
        for line in hex_dump(value or b"") if readable is None else readable.splitlines():
            output.print(f"  {line}")


def _as_json(letter: "DeadLetter", replayed_ms: int | None, previews: "LetterPreviews") -> dict[str, Any]:
    return {
        **_about(letter, replayed_ms),
        "headers": [[name, _base64(value)] for name, value in letter.headers],
        "key": _base64(letter.key),
        "value": _base64(letter.value),
        "preview": previews.of(letter),
    }


def _about(letter: "DeadLetter", replayed_ms: int | None) -> dict[str, Any]:
    return {
        **{name: getattr(letter, name) for name in _SHOWN},
        "bytes": None if letter.value is None else len(letter.value),
        "replayed_ms": replayed_ms,
    }


def _when(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1_000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def _base64(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()
