"""`acker state`."""

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from acker_cli.commands.options import JSON, argument, command, flag, option
from acker_cli.console import confirm, print_json, slow_progress, standard_error, standard_output
from acker_cli.errors import CliError, SettingsError
from acker_cli.settings import LoadedSettings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spout_sdk.state import StateEntry, StateView

_NAME = argument("TOPOLOGY", "The topology's name in acker.topologies.")
_BOLT = argument("BOLT", "A bolt with a state.")


@command(
    "get",
    ("acker state get word-count count the", "the value of a key"),
    ("acker state get shop totals eu 17", "of a key of two fields"),
    ("acker state get word-count count the --json", "with its task, and when it was changed, for programs"),
)
def get(
    loaded: LoadedSettings,
    name: str = _NAME,
    bolt: str = _BOLT,
    key: list[str] = argument("KEY…", "The values of the key's fields; bytes as text, or as 0x and hexadecimal."),
    json_: bool = JSON,
) -> None:
    """Print the value of a key, as JSON, as the last committed transaction has left it.

    It reads only the key's partition of the changelog, and affects no process. Exit code 1 if there is no such
    key.
    """
    with _viewed(loaded, name, bolt) as view:
        entry = view.search(_key(view, key))
        if entry is None:
            raise CliError(
                f"{view.topic} has no key {' '.join(key)}: acker state list {name} {bolt} prints what it has"
            )
        print_json(_as_json(view, entry)) if json_ else _print(entry.value)


@command(
    "list",
    ("acker state list word-count count", "the first 50 keys, in the order of their bytes"),
    ("acker state list word-count count --after the --limit 100", "the next page"),
)
def list_(
    loaded: LoadedSettings,
    name: str = _NAME,
    bolt: str = _BOLT,
    limit: int = option("N", "The maximum number of keys.", default=50, min=1),
    after: list[str] | None = option("KEY", "Only keys after this one; once for each field of the key.", "--after"),
) -> None:
    """Print keys and values, as JSON lines: key, value, task, and when it was changed, in milliseconds since 1970.

    It reads the whole changelog, and affects no process. Standard error has the number of keys, and the next page.
    """
    from itertools import islice

    with _viewed(loaded, name, bolt) as view:
        behind = b"" if after is None else _key(view, after)
        entries = (each for each in view.entries() if after is None or view.keys.encode(each.key) > behind)
        page = [*islice(entries, limit + 1)]
        for entry in page[:limit]:
            _print(_as_json(view, entry))
        texts = [_text(value) for value in page[limit - 1].key] if len(page) > limit else []
        more = f"; next page: --after {' --after '.join(texts)}" if texts else ""
        standard_error().print(f"{len(page[:limit]):,} of {len(view):,} keys{more}")


@command(
    "export",
    ("acker state export word-count count counts.parquet", "all keys, a column for each field"),
    ("acker state export word-count count counts.csv", "as CSV"),
    ("acker state export word-count count counts.jsonl", "as JSON lines, as acker state list prints them"),
)
def export(
    loaded: LoadedSettings,
    name: str = _NAME,
    bolt: str = _BOLT,
    path: Path = argument("FILE", "The suffix is the format: .jsonl, .csv or .parquet; - prints JSON lines."),
    force: bool = flag("--force", "Replace the file if it exists."),
) -> None:
    """Write all keys and values to a file.

    It reads the whole changelog, and affects no process. The keys are in memory meanwhile, about 300 bytes each. CSV
    and Parquet have a column for each field of key and value, and one for the time of the last change; values of types
    that have no column are text with JSON.
    """
    from acker_cli.cluster.state_export import FORMATS, write

    ending = ".jsonl" if str(path) == "-" else path.suffix
    if ending not in FORMATS:
        raise SettingsError(f"{path} has no known ending: give a file with {', '.join(FORMATS)}, or -")
    if str(path) != "-" and path.exists() and not force:
        raise SettingsError(f"{path} exists: --force replaces it")
    with _viewed(loaded, name, bolt) as view:
        if str(path) == "-":
            for entry in view.entries():
                _print(_as_json(view, entry))
            return
        lines = (_line(_as_json(view, entry)) for entry in view.entries()) if ending == ".jsonl" else None
        try:
            count = write(view, path, lines)
        except OSError as error:
            raise CliError(f"{path} cannot be written: {error}. Give a file in a directory that exists") from error
    standard_error().print(f"wrote {count:,} keys to {path}")


@command(
    "reset",
    ("acker state reset word-count count", "begin with an empty state"),
    ("acker state reset word-count count the", "delete one key"),
    ("acker state reset word-count count --keep-values", "after its source topic was created again"),
    ("acker state reset word-count count --yes", "without a prompt"),
)
def reset(
    loaded: LoadedSettings,
    name: str = _NAME,
    bolt: str = _BOLT,
    key: list[str] | None = argument("[KEY…]", "Only this key: the values of its fields.", default=None),
    keep_values: bool = flag("--keep-values", "Only forget which messages have changed the state."),
    yes: bool = flag("--yes", "Skip the prompt."),
    json_: bool = JSON,
) -> None:
    """Delete the state of a stopped bolt, or one key of it.

    The changelog is deleted and created again, so stores on disk are not used any more. Then each value begins as that
    of a new key. Messages that are done are not processed again: to count them, set the offsets of the spout back, too.
    Messages that are open now, and are replayed, change the new state once more.

    With --keep-values the values stay, and only the identities of applied tuples and the done source positions are
    deleted: a topic of a spout that was deleted and created again has other messages at these positions. Messages that
    are open now may change the state twice.

    Repeat an interrupted reset with the same command.
    """
    from acker_cli.cluster.state_reset import StateReset

    progress = standard_error() if json_ else standard_output()
    chosen = StateReset(loaded.cluster(), name, bolt)
    if key and keep_values:
        raise SettingsError("--keep-values is for a whole state: remove it, or the key")
    encoded = None if not key else _parsed(chosen.keys, key)
    chosen.check_stopped()
    what = "identities and positions" if keep_values else f"key {' '.join(key)}" if key else "all keys"
    if not yes:
        progress.print(f"{what} of {chosen.topic} will be deleted")
        confirm("Delete them?", f"the state of {bolt} was not deleted", on_stderr=json_)
    if keep_values:
        chosen.forget_identities()
    elif encoded is None:
        chosen.recreate()
    else:
        chosen.delete(encoded)
    if json_:
        print_json({"topology": name, "bolt": bolt, "topic": chosen.topic, "deleted": what})
    else:
        progress.print(f"deleted {what} of {chosen.topic}")


@contextmanager
def _viewed(loaded: LoadedSettings, name: str, bolt: str) -> "Iterator[StateView]":
    from spout_sdk.state import StateView

    with slow_progress(standard_error()) as show, StateView(name, bolt, loaded.cluster(), progress=show) as view:
        yield view


def _key(view: "StateView", texts: "Sequence[str]") -> bytes:
    return _parsed(view.keys, texts)


def _parsed(keys: Any, texts: "Sequence[str]") -> bytes:
    try:
        encoded: bytes = keys.parse(texts)
    except TypeError as error:
        raise SettingsError(str(error)) from error
    return encoded


def _as_json(view: "StateView", entry: "StateEntry") -> dict[str, Any]:
    from inspection.state_search import entry_as_json

    return entry_as_json(view.key_fields, entry)


def _print(value: Any) -> None:
    standard_output().print(_line(value))


def _line(value: Any) -> str:
    import json

    return json.dumps(value, ensure_ascii=False, default=_text)


def _text(value: Any) -> str:
    from inspection.state_search import as_text

    return as_text(value)
