"""The records of `{topology}.stats`."""

import json
from dataclasses import replace

import pytest

from tuple_tree.errors import StatsRecordError
from tuple_tree.process_stats import StatsRecord


def test_invalid_records_are_rejected() -> None:
    key, value = b"component/split/host/1", b'{"v":1,"run":"a","uptime_ms":1,"ended":false,"stats":{}}'
    assert StatsRecord.of(key, value, 0).name == "split"
    keys = (None, b"component/split/host", b"component/split/host/one", b"job/split/host/1", b"component/\xff/host/1")
    changed = ((b'"v":1', b'"v":2'), (b'"stats":{}', b'"stats":[]'), (b'"uptime_ms":1', b'"uptime_ms":Infinity'))
    values = (None, b"{}", b"[]", b"[" * 100_000, *(value.replace(*each) for each in changed))
    for wrong in (*((each, value) for each in keys), *((key, each) for each in values)):
        with pytest.raises(StatsRecordError, match="do all processes run the same version"):
            StatsRecord.of(*wrong, 0)


def test_a_record_is_decoded_as_it_was_written() -> None:
    written = StatsRecord("component", "split", "host", 7, "abc", 1500, True, {"emitted": 1})
    assert StatsRecord.of(b"component/split/host/7", written.to_json(), 99) == replace(written, at_ms=99)
    members = {"v", "run", "uptime_ms", "sent_ms", "ended", "stats"}
    assert set(json.loads(written.to_json())) == members
    broken = replace(written, sent_ms=17, ended_by="OSError: No space left on device")
    assert set(json.loads(broken.to_json())) == {*members, "ended_by"}
    assert StatsRecord.of(b"component/split/host/7", broken.to_json(), 99) == replace(broken, at_ms=99)
