"""When a transaction may leave inputs open: only if none of them can have had an effect."""

from hypothesis import given
from hypothesis import strategies as st

from spout_sdk.emitting.input_offsets import InputOffsets
from tests.unit.sdk.memory import open_pack, opened


@given(st.lists(st.sampled_from(["read", "send", "settle", "settle-last", "check"]), max_size=60))
def test_what_is_sent_without_an_anchor_may_be_an_effect_of_each_open_input(actions: list[str]) -> None:
    sent = reads = 0
    inputs = InputOffsets(lambda: sent)
    sent_at: dict[int, int] = {}  # offset of an open record → what was sent before it
    for action in actions:
        if action == "read":
            opened(inputs, open_pack(reads))
            sent_at[reads] = sent
            reads += 1
        elif action == "send":
            sent += 1
        elif action == "check":
            assert inputs.is_repeatable == (set(sent_at.values()) <= {sent})
        elif sent_at:
            offset = min(sent_at) if action == "settle" else max(sent_at)
            del sent_at[offset]
            inputs.settle([open_pack(offset)])
    assert inputs.is_repeatable == (set(sent_at.values()) <= {sent})
    if reads:
        assert inputs.committable == min(sent_at, default=reads)
