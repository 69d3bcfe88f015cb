"""The state of a bolt in words."""

from typing import TYPE_CHECKING, Final

from rich.text import Text

if TYPE_CHECKING:
    from inspection.state_figures import RestoreFigures, StateFigures

_UNITS: Final = ("bytes", "kB", "MB", "GB", "TB")
_STEP: Final = 1_000


def state_line(bolt: str, state: "StateFigures") -> Text:
    """Its keys, its size, the restore that runs, and what it guarantees."""
    keys, size, identities = state["keys"], state["bytes"], state["identities"]
    figures = []
    if keys is not None and size is not None and identities is not None:
        figures = [f"{keys:,} keys, {in_bytes(size)}, {identities:,} identities"]
    line = Text.assemble("state of ", (bolt, "cyan"), ": ", "; ".join([*figures, ""]))
    if (restore := state["restore"]) is not None:
        line.append(f"{restore_in_words(restore)}; ", "yellow")
    return line.append(state["guarantee"])


def restore_in_words(restore: "RestoreFigures") -> str:
    """The progress of a restore as text, for instance `restoring 45 %, 312,000 records/s`."""
    tasks = ", ".join(map(str, restore["tasks"]))
    return f"restoring {restore['done']:.0%}".replace("%", " %") + (
        f" of tasks {tasks}, {restore['records_per_second']:,.0f} records/s"
    )


def in_bytes(size: float) -> str:
    """A number of bytes, such as `310 MB`."""
    for unit in _UNITS[:-1]:
        if size < _STEP:
            return f"{size:,.0f} {unit}"
        size /= _STEP
    return f"{size:,.1f} {_UNITS[-1]}"
