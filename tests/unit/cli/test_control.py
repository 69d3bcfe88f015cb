"""`acker topologies pause`, `drain` and `stop`: what is printed if the state is not reached in time."""

import pytest

from acker_cli.commands.control import not_done
from tuple_tree.control import ControlState


@pytest.mark.parametrize(
    ("state", "text"),
    [
        ("paused", "shop still has open tuples after 300 s; the requested state stays paused: repeat"),
        ("draining", "shop is not drained after 300 s; the requested state stays draining: repeat"),
        ("stopped", "shop still has processes after 300 s; the requested state stays stopped: repeat"),
    ],
)
def test_an_error_says_what_is_left_and_not_that_nothing_is(state: ControlState, text: str) -> None:
    assert not_done("shop", state, 300.2).startswith(text)
