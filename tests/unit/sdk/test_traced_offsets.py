"""When a transaction may leave inputs open: only if none of them can have had an effect."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from spout_sdk.traced_offsets import TracedOffsets


@dataclass
class Sends:
    sent: int = 0


@given(st.lists(st.sampled_from(["read", "send", "settle", "settle-last", "ask"]), max_size=60))
def test_it_is_as_a_plain_history_says(actions: list[str]) -> None:
    sends = Sends()
    inputs = TracedOffsets(sends)
    history: list[tuple[str, int]] = []
    unsettled: list[int] = []
    reads = 0
    for action in actions:
        if action == "read":
            inputs.start(reads)
            unsettled.append(reads)
            history.append(("read", reads))
            reads += 1
        elif action == "send":
            sends.sent += 1
            history.append(("send", 0))
        elif action == "ask":
            assert inputs.is_repeatable == _expected(history, unsettled)
        elif unsettled:
            offset = unsettled.pop(0 if action == "settle" else -1)
            inputs.done(offset)
            history.append(("settle", offset))
    assert inputs.is_repeatable == _expected(history, unsettled)
    if reads:
        assert inputs.committable == min(unsettled, default=reads)


def _expected(history: list[tuple[str, int]], unsettled: list[int]) -> bool:
    if not unsettled:
        return True
    since = history.index(("read", unsettled[0]))
    # An input that was settled before the oldest open one was read is none of these.
    later = {offset for kind, offset in history[since:] if kind == "read"}
    return not any(kind == "send" or (kind == "settle" and offset in later) for kind, offset in history[since:])
