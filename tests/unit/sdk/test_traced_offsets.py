"""When a transaction may leave inputs open: only if none of them can have had an effect."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from spout_sdk.traced_offsets import TracedOffsets


@dataclass
class Sends:
    sent: int = 0


def traced() -> tuple[TracedOffsets, Sends]:
    sends = Sends()
    return TracedOffsets(sends), sends


def repeatable(inputs: TracedOffsets) -> bool:
    return inputs.is_repeatable


def test_what_is_settled_is_committed_whatever_was_sent() -> None:
    inputs, sends = traced()
    assert repeatable(inputs)
    inputs.start(3)
    sends.sent += 2
    assert not repeatable(inputs)
    inputs.done(3)
    assert repeatable(inputs)
    assert inputs.committable == 4


def test_what_is_collected_in_silence_stays_behind() -> None:
    inputs, sends = traced()
    inputs.start(0)
    sends.sent += 5
    inputs.done(0)
    for offset in (1, 2, 5):
        inputs.start(offset)
        assert repeatable(inputs)
    assert inputs.committable == 1
    sends.sent += 1
    assert not repeatable(inputs)


def test_an_ack_behind_an_open_input_is_an_effect() -> None:
    inputs, _ = traced()
    inputs.start(0)
    inputs.start(1)
    inputs.done(1)
    assert not repeatable(inputs)
    inputs.done(0)
    assert repeatable(inputs)


def test_a_tuple_that_was_sent_before_the_oldest_open_input_is_not_its_effect() -> None:
    inputs, sends = traced()
    inputs.start(0)
    sends.sent += 1
    inputs.start(1)
    inputs.done(0)
    assert repeatable(inputs), "sent for what is settled"
    assert inputs.committable == 1


@given(st.lists(st.sampled_from(["read", "send", "settle", "settle-last", "ask"]), max_size=60))
def test_it_is_as_a_plain_history_says(actions: list[str]) -> None:
    inputs, sends = traced()
    history: list[tuple[str, int]] = []
    unsettled: list[int] = []
    for step, action in enumerate(actions):
        if action == "read":
            inputs.start(step)
            unsettled.append(step)
            history.append(("read", step))
        elif action == "send":
            sends.sent += 1
            history.append(("send", step))
        elif action == "ask":
            assert repeatable(inputs) == _expected(history, unsettled)
        elif unsettled:
            offset = unsettled.pop(0 if action == "settle" else -1)
            inputs.done(offset)
            history.append(("settle", offset))
    assert repeatable(inputs) == _expected(history, unsettled)


def _expected(history: list[tuple[str, int]], unsettled: list[int]) -> bool:
    if not unsettled:
        return True
    since = history.index(("read", unsettled[0]))
    # An input that was settled before the oldest open one was read is none of these.
    later = {offset for kind, offset in history[since:] if kind == "read"}
    return not any(kind == "send" or (kind == "settle" and offset in later) for kind, offset in history[since:])
