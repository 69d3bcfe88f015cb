"""Shows a topology's figures, once or again and again."""

from collections.abc import Collection
from typing import Final

from rich.live import Live

from acker_cli.console import print_json, standard_output
from acker_cli.errors import SettingsError
from acker_cli.top_view import screen
from inspection.observer import Observer, is_heard
from kafka_clients.errors import UnknownTopologyError

_SOMEBODY_S: Final = 5.0
"""How long it may take until a process is heard, in seconds."""
_PRINTED_COLUMNS: Final = 160
"""How wide it is where there is no terminal."""


def only_topology(topologies: Collection[str]) -> str:
    """The topology that is meant where none is named.

    Raises:
        UnknownTopologyError: if there is none.
        SettingsError: if there are several.
    """
    if not topologies:
        raise UnknownTopologyError("", [])
    if len(topologies) > 1:
        raise SettingsError(f"say which topology: the cluster has {', '.join(sorted(topologies))}")
    (only,) = topologies
    return only


class Top:
    """What `acker top` does.

    Args:
        observer: follows the topology; open.
        as_json: whether to print lines of JSON.
    """

    def __init__(self, observer: Observer, *, as_json: bool) -> None:
        self._observer = observer
        self._as_json = as_json
        self._output = standard_output()

    def once(self) -> None:
        """Prints the figures.

        Raises:
            SilenceError: if no process says how it does.
        """
        self._observer.await_somebody(_SOMEBODY_S)
        self._print()

    def run(self, seconds: float) -> None:
        """Shows the figures until it is interrupted.

        Args:
            seconds: between two times.
        """
        if self._as_json or not self._output.is_terminal or self._output.is_dumb_terminal:
            while True:
                self._print()
                if not self._as_json:
                    self._output.print()
                self._observer.follow(seconds)
        with Live(console=self._output, screen=True, auto_refresh=False) as live:
            while True:
                width = self._output.width
                live.update(screen(self._observer.snapshot(), width, self._notes()), refresh=True)
                self._observer.follow(seconds)

    def _print(self) -> None:
        snapshot = self._observer.snapshot()
        if self._as_json:
            print_json({**snapshot})
            return
        if not self._output.is_terminal:
            self._output.width = _PRINTED_COLUMNS
        self._output.print(screen(snapshot, self._output.width, self._notes()))

    def _notes(self) -> list[str]:
        notes = [] if is_heard(self._observer.snapshot()) else [self._observer.silence]
        if self._observer.problem:
            notes.append(f"lags are not known: {self._observer.problem}")
        return notes
