"""`acker status`."""

from typing import Final

from acker_cli.commands.options import JSON, argument, command, flag, option
from acker_cli.settings import LoadedSettings

NOT_DONE: Final = 3
DEAD_LETTER: Final = 4
_WHICH = "Which message"


@command(
    "status",
    ("acker status shop --key ORDER-4711", "the newest message with this key"),
    ("acker status shop --key ORDER-4711 --since 2h --all", "all of the last two hours"),
    ("acker status shop --offset 3/120311", "the message at offset 120311 of partition 3 of the source topic"),
    ("acker status shop --offset orders/3/120311 --json", "of a topology that reads several topics, for programs"),
)
def status(
    loaded: LoadedSettings,
    topology: str = argument("TOPOLOGY", "Name of the topology."),
    key: str | None = option("KEY", "The key of the message, as text.", rich_help_panel=_WHICH),
    key_hex: str | None = option(
        "HEX", "The key in hexadecimal, if it is not text, such as a number of 8 bytes.", rich_help_panel=_WHICH
    ),
    offset: str | None = option(
        "[TOPIC/]PARTITION/OFFSET",
        "The position of the message; the topic may be left out if the topology reads only one.",
        rich_help_panel=_WHICH,
    ),
    topic: str | None = option("TOPIC", "Search the key in this source topic only.", rich_help_panel=_WHICH),
    all_: bool = flag("--all", "All messages with the key, the newest 100 at most.", rich_help_panel=_WHICH),
    since: str | None = option(
        "WHEN",
        "How far back to search: 90s, 10m, 2h or 1d, or from a time on, as 2026-03-01T12:00. A key is searched in "
        "the whole topic unless given, attempts in twice the largest tree age.",
    ),
    json_: bool = JSON,
) -> None:
    """Show whether a message is done, open, or waiting for a retry: at which component, since when, which attempt.

    From the source topic, the committed offsets of its spout, outcomes, dead letters and the ack log. A key is searched
    from the end of the topic, so a recent one is found at once; an old one takes as long as reading the topic. Nothing
    is written, and no consumer group is joined.

    Exit code: 0 if it is done, 3 if it is not done yet, 4 if it became a dead letter, 1 if there is no such message, or
    for another error. With --all, the largest counts.
    """
    import time

    import typer

    from acker_cli.console import print_json, slow_progress, standard_error, standard_output
    from acker_cli.errors import SettingsError
    from inspection.message_status import StatusReader
    from inspection.message_status.output import heading, sentences, status_as_json
    from inspection.notation import since_ms
    from kafka_clients.catalogue import Catalogue

    if sum(each is not None for each in (key, key_hex, offset)) != 1:
        raise SettingsError("name the message: give one of --key, --key-hex and --offset")
    if offset is not None and (all_ or topic is not None):
        raise SettingsError("--all and --topic are for a key: leave them out, or give --key instead of --offset")
    wanted = (key or "").encode()
    if key_hex is not None:
        try:
            wanted = bytes.fromhex(key_hex.removeprefix("0x"))
        except ValueError as error:
            raise SettingsError(
                f"--key-hex {key_hex} is not hexadecimal: give two digits for each byte, as 0000000000001267"
            ) from error
    asked = None if since is None else since_ms(since, time.time_ns() // 1_000_000)
    kafka = loaded.cluster()
    with standard_error().status("asking the cluster …"):
        manifest = Catalogue(kafka).manifest(topology)
    with slow_progress(standard_error()) as progress, StatusReader(kafka, manifest, progress) as reader:
        if offset is not None:
            found = reader.of_position(offset, asked)
        else:
            found = reader.of_key(wanted, asked, topic=topic, every=all_)
    now_ms = time.time_ns() // 1_000_000
    if json_:
        print_json({"topology": topology, "messages": [status_as_json(each, now_ms) for each in found]})
    else:
        output = standard_output()
        for number, each in enumerate(found):
            if number:
                output.print()
            output.print(heading(each), style="bold")
            for line in sentences(each, now_ms):
                output.print(line)
    codes = {DEAD_LETTER if each.is_dead_letter else 0 if each.is_done else NOT_DONE for each in found}
    raise typer.Exit(max(codes))
