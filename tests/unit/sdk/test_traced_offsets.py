"""When a transaction may leave inputs open: only if none of them can have had an effect."""

from hypothesis import given
from hypothesis import strategies as st

from spout_sdk.emitting.input_offsets import InputOffsets
from tests.unit.sdk.memory import open_pack


@given(st.lists(st.sampled_from(["read", "send", "settle", "settle-last", "check"]), max_size=60))
def test_traced_offsets_equal_a_plain_history(actions: list[str]) -> None:
    emitted = reads = 0
    inputs = InputOffsets(lambda: emitted)
    history: list[tuple[str, int]] = []
    unsettled: list[int] = []
    for action in actions:
        if action == "read":
            inputs.open(open_pack(reads))
            unsettled.append(reads)
            history.append(("read", reads))
            reads += 1
        elif action == "send":
            emitted += 1
            history.append(("send", 0))
        elif action == "check":
            assert inputs.is_repeatable == _expected(history, unsettled)
        elif unsettled:
            offset = unsettled.pop(0 if action == "settle" else -1)
            inputs.settle([open_pack(offset)])
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


def test_a_partly_settled_record_is_not_repeatable() -> None:
    inputs = InputOffsets(lambda: 0)
    packs = [open_pack(offset, 2) for offset in (7, 8)]
    for pack in packs:
        inputs.open(pack)
    seen = [(inputs.is_repeatable, inputs.committable, inputs.weight)]
    for left, done in ((1, []), (0, packs[:1])):
        packs[0].left = left
        inputs.settle(done)
        seen.append((inputs.is_repeatable, inputs.committable, inputs.weight))
    assert seen == [(True, 7, 4), (False, 7, 4), (True, 8, 2)]
