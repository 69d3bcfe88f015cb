"""The control record of a topology."""

import pytest

from tuple_tree.control import Control, control_key, controlled_topology
from tuple_tree.errors import ControlRecordError


def test_a_record_is_read_as_it_was_written() -> None:
    written = Control("draining", "user@host")
    assert Control.of(written.to_json(), 7) == Control("draining", "user@host", 7)
    assert Control.of(None) == Control()
    assert controlled_topology(control_key("word-count")) == "word-count"
    assert controlled_topology(b"word-count") is None


@pytest.mark.parametrize(
    "value", [b"", b"[]", b"{}", b'{"version": 2, "state": "paused"}', b'{"version": 1, "state": "x"}']
)
def test_a_record_of_another_version_is_an_error(value: bytes) -> None:
    with pytest.raises(ControlRecordError, match="a control record"):
        Control.of(value)
