"""Times, counts, roots, tuples, and messages of spouts with positional roots, as text."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from inspection.errors import MomentError, RootFormError
from tuple_tree.errors import PositionError
from tuple_tree.ids import ID_MASK
from tuple_tree.manifest import Manifest
from tuple_tree.positions import MAX_ATTEMPTS, Position, position_word

_AGO: Final = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
_UNIT_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_HEX_DIGITS: Final = 16
_HEX: Final = re.compile(r"0[xX][0-9a-fA-F]{1,16}|[0-9a-fA-F]{16}|(?=.*[a-fA-F])[0-9a-fA-F]{1,16}")
_DECIMAL: Final = re.compile(r"-?[0-9]{1,20}")
_TUPLE: Final = re.compile(r"([^/]+)/([0-9]+)@([0-9]+)(?:\.([0-9]+))?")
_MESSAGE: Final = re.compile(r"([^/]+)/([0-9]+)/([0-9]+)(?:/([0-9]+))?")


def since_ms(text: str, now_ms: int) -> int:
    """The milliseconds since the epoch of `90s`, `30m`, `2h` or `1d` ago, or of a time such as `2026-03-01T12:00`.

    A time is in this machine's time zone unless it names one. Raises `MomentError`.
    """
    if ago := _AGO.fullmatch(text):
        return now_ms - round(float(ago[1]) * _UNIT_MS[ago[2]])
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1_000)
    except (ValueError, OverflowError, OSError) as error:
        raise MomentError(
            f"--since {text} is not a time: give a duration, such as 90s, 30m, 2h or 1d, or a time: 2026-03-01T12:00"
        ) from error


def show_time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def counted(number: int, noun: str, plural: str = "") -> str:
    """A number and a noun, such as `1 message` and `1,200 messages`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def parse_root(text: str) -> int:
    """Reads a root id: hexadecimal with `0x`, with 16 digits or with a letter in it, else decimal, signed or not."""
    if _HEX.fullmatch(text):
        return int(text, 16)
    if _DECIMAL.fullmatch(text) and -(2**63) <= int(text) < 2**64:
        return int(text) & ID_MASK
    raise RootFormError(
        f"{text!r} is not a root id: give 64 bits in hexadecimal, as notices and logs show them ({'0' * 12}beef), or "
        "in decimal"
    )


def show_root(root: int) -> str:
    return f"{root:0{_HEX_DIGITS}x}"


def place_of_tuple(text: str, manifest: Manifest) -> tuple[str, int, int, int | None]:
    """Bolt, task and offset of a record in an inbox, and the index of one of its tuples; None for all of them."""
    match = _TUPLE.fullmatch(text)
    tasks = {bolt.name: bolt.tasks for bolt in manifest.inboxes}
    if match is not None and any(bolt.is_chained and bolt.name == match[1] for bolt in manifest.bolts):
        head = manifest.head(match[1])
        instead = "SPOUT/PARTITION/OFFSET of its message" if head.kind == "spout" else f"a tuple of {head.name}"
        raise RootFormError(
            f"{text!r} is in no inbox: {match[1]} is chained, and its tuples stay in the tasks of {head.name}; give "
            f"{instead}, or --oldest"
        )
    if match is None or int(match[2]) >= tasks.get(match[1], 0):
        known = ", ".join(f"{name} with {count} tasks" for name, count in tasks.items())
        raise RootFormError(
            f"{text!r} is not a tuple: give BOLT/TASK@OFFSET or BOLT/TASK@OFFSET.INDEX; the bolts with an inbox "
            f"are {known or 'none'}"
        )
    return match[1], int(match[2]), int(match[3]), None if match[4] is None else int(match[4])


def positions_of_message(text: str, manifest: Manifest) -> tuple[str, list[Position]]:
    """The spout of a message and its positions, one for each attempt to deliver it."""
    match = _MESSAGE.fullmatch(text)
    if match is None:
        raise RootFormError(
            f"{text!r} is not a message: give SPOUT/PARTITION/OFFSET, the position in the spout's source. Only a "
            "KafkaSpout and spouts in Spark have roots that follow from it; for others give the root, --oldest or "
            "--last-failed"
        )
    name, partition, offset = match[1], int(match[2]), int(match[3])
    names = [spout.name for spout in manifest.spouts]
    if name not in names:
        raise RootFormError(
            f"topology {manifest.topology!r} has no spout {name!r}: it has {', '.join(names) or 'none'}"
        )
    attempts = range(MAX_ATTEMPTS) if match[4] is None else [int(match[4])]
    try:
        positions = [Position(names.index(name), partition, offset, attempt) for attempt in attempts]
        position_word(positions[-1])
    except PositionError as error:
        raise RootFormError(f"{text!r} cannot have a root: {error}") from error
    return name, positions


def show_writers(topology: str, writers: Iterable[tuple[str, str]]) -> str:
    """The writers of a topic that are spouts of other topologies."""
    return ", ".join(f"spout {spout} of topology {name}" for name, spout in writers if name != topology)
