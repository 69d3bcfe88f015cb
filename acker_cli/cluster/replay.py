"""Replaying dead letters: what is chosen, the question before, and what was written back."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from acker_cli.console import confirm, print_json, standard_error, standard_output
from acker_cli.interruption import interruptible
from inspection.dead_letters import DeadLetter, DeadLetterLog, Selection
from inspection.errors import DeadLettersError
from inspection.notation import counted
from inspection.replay import Replayed, Replayer, why_not
from kafka_clients.catalogue import KafkaSettings


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """Which dead letters of a topology are to be replayed, at most `limit`, the oldest first.

    With `again`, also letters that were replayed before.
    """

    topology: str
    selection: Selection
    limit: int
    again: bool = False


@dataclass(slots=True)
class Choice:
    """The letters to replay, by offset."""

    letters: dict[int, tuple[str, str]] = field(default_factory=dict)  # topic and reason of those to be written back
    before: dict[int, int] = field(default_factory=dict)  # when it was replayed before, in ms since the epoch
    refused: dict[int, str] = field(default_factory=dict)  # why it cannot be written back
    more: int = 0  # how many are beyond the limit


@contextmanager
def dead_letters_read(kafka: KafkaSettings, topology: str) -> Iterator[DeadLetterLog]:
    """The dead letters of a topology; the terminal shows how many are read."""
    with standard_error().status("reading dead letters …") as status:
        yield DeadLetterLog(kafka, topology, lambda count: status.update(f"read {count:,} dead letters …"))


def choose(log: DeadLetterLog, wanted: ReplayRequest, until: int = 0) -> Choice:
    """Reads what there is to replay; an error if a letter was named that cannot be. `until`: as in `entries`."""
    choice, selection = Choice(), wanted.selection
    letters: dict[int, tuple[str, str]] = {}
    replays: dict[int, int] = {}
    for entry in log.entries(since_ms=selection.since_ms, until=until):
        if not isinstance(entry, DeadLetter):
            replays[entry.of] = entry.timestamp_ms
        elif selection.takes(entry):
            if why := why_not(entry, wanted.topology, log.partitions, selection.topics):
                choice.refused[entry.offset] = why
            else:
                letters[entry.offset] = (entry.topic, entry.reason)
    choice.before = {} if wanted.again else {at: ms for at, ms in replays.items() if at in letters}
    left = [at for at in sorted(letters) if at not in choice.before]
    choice.letters = {at: letters[at] for at in left[: wanted.limit]}
    choice.more = len(left) - len(choice.letters)
    _check_named(log.topic, wanted, choice, letters)
    return choice


def _check_named(topic: str, wanted: ReplayRequest, choice: Choice, letters: Mapping[int, object]) -> None:
    for offset in sorted(wanted.selection.offsets):
        if offset in choice.before:
            raise DeadLettersError(
                f"dead letter {offset} was replayed before: --again replays it once more. Nothing was written back"
            )
        if offset in choice.refused:
            raise DeadLettersError(
                f"dead letter {offset} cannot be replayed: {choice.refused[offset]}. Nothing was written back"
            )
        if offset not in letters:
            raise DeadLettersError(
                f"{topic} has no dead letter {offset} that matches the filters: acker dead-letters list "
                f"{wanted.topology} lists its dead letters. Nothing was written back"
            )


def replay_letters(kafka: KafkaSettings, wanted: ReplayRequest, *, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Replays, after a question unless `yes`, and prints what was written back; so does an error."""
    output = standard_error() if as_json else standard_output()
    done: list[Replayed] = []
    with interruptible():
        with dead_letters_read(kafka, wanted.topology) as log:
            choice = choose(log, wanted)
        for line in _to_be_done(choice):
            output.print(line)
        if dry_run or not choice.letters:
            _report(wanted.topology, choice, done, as_json=as_json, dry_run=dry_run)
            return
        if not yes:
            confirm("Write them back?", "nothing was written back", on_stderr=as_json)
        with standard_error().status("waiting for another replay to end …") as status:
            choice = _replay(kafka, wanted, done, status.update)
    _report(wanted.topology, choice, done, as_json=as_json, dry_run=False)
    if len(done) < len(choice.letters):
        raise DeadLettersError(f"{len(choice.letters) - len(done)} dead letters were deleted by retention meanwhile")


def _replay(kafka: KafkaSettings, wanted: ReplayRequest, done: list[Replayed], say: Callable[[str], None]) -> Choice:
    with Replayer(kafka, wanted.topology) as replayer:
        # From here on no other replay runs, so only what is read now is true; and topics may be gone that were there
        # before the question.
        log = DeadLetterLog(kafka, wanted.topology)
        choice = choose(log, wanted, until=replayer.noted)
        try:
            for one in replayer.replay(log.fetch(choice.letters)):
                done.append(one)
                say(f"wrote back {len(done):,} of {len(choice.letters):,} …")
        except DeadLettersError as error:
            raise DeadLettersError(
                f"{error}. {len(done)} of {len(choice.letters)} are known to be written back"
            ) from error
    return choice


def _to_be_done(choice: Choice) -> list[str]:
    lines = [
        f"{count:,} with reason {reason} to {topic}"
        for (topic, reason), count in Counter(choice.letters.values()).items()
    ]
    if choice.before:
        lines.append(f"{len(choice.before):,} were replayed before, and are left out")
    lines += [f"{count:,} left out: {why}" for why, count in Counter(choice.refused.values()).items()]
    if choice.more:
        lines.append(f"{choice.more:,} more are beyond --limit: repeat the command for them")
    return lines


def _report(topology: str, choice: Choice, done: Sequence[Replayed], *, as_json: bool, dry_run: bool) -> None:
    if not as_json:
        verb, count = ("would write back", len(choice.letters)) if dry_run else ("wrote back", len(done))
        standard_output().print(f"{verb} {counted(count, 'dead letter')}")
        return
    print_json(
        {
            "topology": topology,
            "dry_run": dry_run,
            "chosen": list(choice.letters),
            "replayed": [
                {"offset": it.offset, "topic": it.topic, "partition": it.partition, "position": position}
                for it, position in done
            ],
            "replayed_before": sorted(choice.before),
            "refused": [{"offset": offset, "why": why} for offset, why in sorted(choice.refused.items())],
            "beyond_limit": choice.more,
        }
    )
