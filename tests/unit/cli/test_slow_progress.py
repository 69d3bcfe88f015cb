"""Progress is shown only of what takes a while."""

import io

from rich.console import Console

from acker_cli.slow_progress import PATIENCE_S, slow_progress


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def told(clock: Clock, *, terminal: bool) -> str:
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=100, soft_wrap=True)
    with slow_progress(console, clock) as progress:
        progress("the ack log", 1, 5_000)
        assert out.getvalue() == ""
        clock.now += PATIENCE_S
        progress("the ack log", 2_000, 5_000)
        progress("the ack log", 3_000, 5_000)
        progress("inboxes", 1, 7)
    return out.getvalue()


def test_where_there_is_no_terminal_there_are_lines() -> None:
    assert told(Clock(), terminal=False) == "reading the ack log: 5,000 records …\nreading inboxes: 7 records …\n"


def test_on_a_terminal_there_is_a_bar() -> None:
    assert "reading the ack log" in told(Clock(), terminal=True)


def test_what_is_quick_says_nothing() -> None:
    out = io.StringIO()
    with slow_progress(Console(file=out), Clock()) as progress:
        progress("the ack log", 1, 1)
    assert out.getvalue() == ""
