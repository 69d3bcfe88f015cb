"""`acker dead-letters`."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from acker_cli.options import ConfigOption, JsonOption, ServersOption, SetOption, examples, help_of

if TYPE_CHECKING:
    from inspection.dead_letters import Selection

_SHOWN: Final = 50
_REPLAYED: Final = 1_000

NameArgument = Annotated[
    str, typer.Argument(metavar="TOPOLOGY", help="The topology's name in acker.topologies.", show_default=False)
]
ReasonOption = Annotated[
    list[str] | None,
    typer.Option("--reason", metavar="WORD", help="Only with this reason; repeatable.", show_default=False),
]
TopicOption = Annotated[
    list[str] | None,
    typer.Option("--topic", metavar="TOPIC", help="Only what lay in this topic; repeatable.", show_default=False),
]
ComponentOption = Annotated[
    list[str] | None,
    typer.Option(
        "--component", metavar="NAME", help="Only what this component could not use; repeatable.", show_default=False
    ),
]
SinceOption = Annotated[
    str | None,
    typer.Option(
        "--since",
        metavar="WHEN",
        help="Only later ones: 90s, 30m, 2h or 1d ago, or 2026-03-01T12:00.",
        show_default=False,
    ),
]
OffsetOption = Annotated[
    list[int] | None,
    typer.Option("--offset", metavar="N", min=0, help="Only this dead letter; repeatable.", show_default=False),
]


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    group = typer.Typer(
        no_args_is_help=True, rich_markup_mode="rich", help="See the records that could not be used, and replay them."
    )
    group.command(
        "list",
        help=help_of(list_),
        epilog=examples(
            ("acker dead-letters list word-count", "the latest, and why"),
            ("acker dead-letters list word-count --component split --since 2h", "what one bolt could not use lately"),
            ("acker dead-letters list word-count --json", "the same for programs"),
        ),
    )(list_)
    group.command(
        "show",
        help=help_of(show),
        epilog=examples(
            ("acker dead-letters show word-count 17", "all of one: where it lay, why, headers, payload"),
            ("acker dead-letters show word-count 17 --json", "the same for programs, bytes in base64"),
        ),
    )(show)
    group.command(
        "replay",
        help=help_of(replay),
        epilog=examples(
            ("acker dead-letters replay word-count --offset 17", "one, after a look at it"),
            ("acker dead-letters replay word-count --reason exception --dry-run", "what would be put back"),
            ("acker dead-letters replay word-count --component split --yes", "all of a bolt that was mended"),
            ("acker dead-letters replay word-count --topic lines --yes", "messages of the topic that a spout reads"),
        ),
    )(replay)
    app.add_typer(group, name="dead-letters")


def list_(
    name: NameArgument,
    reason: ReasonOption = None,
    topic: TopicOption = None,
    component: ComponentOption = None,
    since: SinceOption = None,
    offset: OffsetOption = None,
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="The latest so many.")] = _SHOWN,
    config: ConfigOption = None,
    bootstrap_servers: ServersOption = None,
    set_: SetOption = None,
    json_: JsonOption = False,
) -> None:
    """List dead letters: when, why, who could not use it, where it lay, and how it begins.

    The number in front is the offset by which a dead letter is named.
    """
    from collections import Counter, deque

    from acker_cli.console import print_json, standard_error, standard_output
    from acker_cli.dead_letter_views import listed, print_list, print_none
    from inspection.dead_letters import DeadLetter, DeadLetterLog

    chosen = _selection(reason, topic, component, since, offset)
    kafka = _kafka(config, bootstrap_servers, set_)
    replays: dict[int, int] = {}
    shown: deque[DeadLetter] = deque(maxlen=limit)
    total = 0
    searched: Counter[str] = Counter()
    with standard_error().status("reading dead letters …") as status:
        log = DeadLetterLog(kafka, name, lambda count: status.update(f"read {count:,} dead letters …"))
        for entry in log.entries(since_ms=chosen.since_ms):
            if not isinstance(entry, DeadLetter):
                replays[entry.of] = entry.timestamp_ms
                continue
            searched[entry.reason] += 1
            if chosen.takes(entry):
                total += 1
                shown.append(entry)
        previews = log.previews()
    if json_:
        print_json({"topology": name, "total": total, "dead_letters": listed(shown, replays, previews)})
    elif shown:
        print_list(standard_output(), shown, replays, total, previews)
    else:
        print_none(standard_output(), searched)


def show(
    name: NameArgument,
    offset: Annotated[int, typer.Argument(metavar="OFFSET", min=0, help="Of the dead letter.", show_default=False)],
    config: ConfigOption = None,
    bootstrap_servers: ServersOption = None,
    set_: SetOption = None,
    json_: JsonOption = False,
) -> None:
    """Show a dead letter as it was: where it lay, why it could not be used, its headers, key and value.

    A tuple is shown by its fields, too. What is no text is shown in hexadecimal.
    """
    from acker_cli.console import print_json, standard_error, standard_output
    from acker_cli.dead_letter_views import print_shown, shown
    from inspection.dead_letters import DeadLetter, DeadLetterLog, DeadLettersError

    kafka = _kafka(config, bootstrap_servers, set_)
    letter, replayed_ms = None, None
    with standard_error().status("reading dead letters …") as status:
        log = DeadLetterLog(kafka, name, lambda count: status.update(f"read {count:,} dead letters …"))
        for entry in log.entries(start=offset):
            if isinstance(entry, DeadLetter):
                letter = entry if entry.offset == offset else letter
            elif entry.of == offset:
                replayed_ms = entry.timestamp_ms
        previews = log.previews()
    if letter is None:
        raise DeadLettersError(
            f"{log.topic} has no dead letter {offset}: acker dead-letters list {name} names those that it has"
        )
    if json_:
        print_json({"topology": name, **shown(letter, replayed_ms, previews)})
    else:
        print_shown(standard_output(), letter, replayed_ms, previews)


def replay(
    name: NameArgument,
    reason: ReasonOption = None,
    topic: TopicOption = None,
    component: ComponentOption = None,
    since: SinceOption = None,
    offset: OffsetOption = None,
    all_: Annotated[bool, typer.Option("--all", help="All of them, where there is no filter.")] = False,
    limit: Annotated[
        int, typer.Option(metavar="N", min=1, help="The oldest so many; repeat the command for the next.")
    ] = _REPLAYED,
    again: Annotated[bool, typer.Option("--again", help="Also those that were replayed before.")] = False,
    keep_anchors: Annotated[
        bool, typer.Option("--keep-anchors", help="Put tuples back with the anchors of their old trees.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be put back.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Ask nothing.")] = False,
    config: ConfigOption = None,
    bootstrap_servers: ServersOption = None,
    set_: SetOption = None,
    json_: JsonOption = False,
) -> None:
    """Put dead letters back where they lay, each of them once.

    The record goes to the end of the topic and partition where it lay, with its key, value and headers. In the same
    transaction a note goes into the dead letters, so a letter that was replayed is left out by the next replay, also if
    two run at a time or one is killed; --again replays it once more. Of one topology only one replay runs: one that
    begins ends the other.

    A tuple goes back to its bolt's inbox without its anchors: its trees have ended or were replayed under new roots, so
    nobody waits for an ack, and where one is still open, a second ack would only make it time out. It is processed as
    an untracked tuple, and what comes of it is not replayed if it fails. With --keep-anchors its acks are those of
    unknown roots, which acker workers drop. Spouts replay by themselves what failed: replay what was set aside (reason
    exception), or else expect some messages twice.

    A message of a spout's source goes back to that topic, which has to be named by --topic, and becomes a new message
    with a new tree. Ack batches and notices are not replayed: what they tell of is over.
    """
    from acker_cli.errors import SettingsError
    from acker_cli.replaying import ReplayRequest, replay_letters

    chosen = _selection(reason, topic, component, since, offset)
    if not chosen and not all_:
        raise SettingsError("which ones? Give a filter, such as --offset or --reason, or --all")
    replay_letters(
        _kafka(config, bootstrap_servers, set_),
        ReplayRequest(name, chosen, limit, again=again, keep_anchors=keep_anchors),
        dry_run=dry_run,
        yes=yes,
        as_json=json_,
    )


def _kafka(
    config: ConfigOption, bootstrap_servers: str | None, set_: list[str] | None
) -> dict[str, bool | int | float | str]:
    from acker_cli.cluster import configured_cluster
    from acker_cli.setting_layers import Flags, load

    return configured_cluster(load(Flags(config, bootstrap_servers, set_ or ()))).kafka


def _selection(
    reason: list[str] | None,
    topic: list[str] | None,
    component: list[str] | None,
    since: str | None,
    offset: list[int] | None,
) -> "Selection":
    import time

    from inspection.dead_letters import Selection
    from inspection.moments import since_ms

    return Selection(
        frozenset(reason or ()),
        frozenset(topic or ()),
        frozenset(component or ()),
        None if since is None else since_ms(since, round(time.time() * 1_000)),
        frozenset(offset or ()),
    )
