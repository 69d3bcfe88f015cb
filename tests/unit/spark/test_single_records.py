"""Spouts in Spark write streams of one tuple a record, and find the positions of columns of roots."""

import re
from typing import Any, cast

import numpy as np
import pytest

from spark_jobs import ComponentRefusedError
from spark_jobs.payloads import schema_of
from spark_jobs.positional_roots import positions_of
from spout_sdk import Stream, TopologyBuilder, TopologyError, declare
from tuple_tree.positions import Position, positional_root, topic_key

PACKED = declare("word")
SINGLE = [declare("word", codec=codec) for codec in ("avro", "json", "bytes")]
ADVICE = re.escape('so declare the stream with codec="avro" or "json"')


def build(lines: Stream, words: Stream) -> None:
    """lines → split → end, all of them external."""
    builder = TopologyBuilder("words")
    builder.set_spout("lines", "a-topic", external=True, streams=[lines])
    builder.set_bolt("split", lambda rows: rows, external=True, streams=[words]).shuffle_grouping("lines")
    builder.set_bolt("end", lambda rows: rows, external=True).shuffle_grouping("split")
    builder.build()


def test_a_packed_stream_of_an_external_spout_is_refused_with_advice() -> None:
    for single in SINGLE:
        build(single, PACKED)
        with pytest.raises(TopologyError, match=f"'default' of 'lines' has codec arrow, and 'lines' is.*{ADVICE}"):
            build(PACKED, single)
    with pytest.raises(ComponentRefusedError, match=r"'default' has codec arrow: .* so declare it with"):
        schema_of(cast(Any, None), PACKED)


@pytest.mark.parametrize("ack_partitions", [1, 3, 8])
def test_the_positions_of_a_column_of_roots(ack_partitions: int) -> None:
    key = topic_key("GHbxwU_dQ5eLMDKfVpT7Vg")
    places = [(0, 0, 0, 0), (1, 2, 3, 4), (63, 4095, 2**40 - 1, 63)]
    roots = [positional_root(Position(*place), key, ack_partitions) for place in places]
    for dtype in ("<u8", ">u8"):
        assert list(positions_of(np.array(roots, dtype), key, ack_partitions)) == places
