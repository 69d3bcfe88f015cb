"""Positional roots of whole columns, by the functions of `tuple_tree.positions`."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.pandas.functions import pandas_udf

from tuple_tree.ids import IdColumn
from tuple_tree.positions import (
    ATTEMPT_BITS,
    OFFSET_BITS,
    PARTITION_BITS,
    SPOUT_BITS,
    roots_of_words,
    words_of_roots,
)


def positional_root(
    spout: int, partition: Column, offset: Column, attempt: Column, key: int, ack_partitions: int
) -> Column:
    """The root id of a source position, a `bigint`; all fields must be within their bits, and `key` is the topic's."""
    high = F.lit(spout << PARTITION_BITS).cast("bigint").bitwiseOR(partition.cast("bigint"))
    word = (
        F.shiftleft(high, OFFSET_BITS + ATTEMPT_BITS)
        .bitwiseOR(F.shiftleft(offset.cast("bigint"), ATTEMPT_BITS))
        .bitwiseOR(attempt.cast("bigint"))
    )

    def roots(words: pd.Series) -> pd.Series:
        found = roots_of_words(words.to_numpy().astype(np.uint64), [key], ack_partitions)
        return pd.Series(found.astype(np.int64))

    # Its types follow the annotations, which are not known here.
    make: Any = pandas_udf
    column: Column = make(roots, "bigint")(word)
    return column


def positions_of(roots: IdColumn, key: int, ack_partitions: int) -> Iterator[tuple[int, int, int, int]]:
    """Spout, partition, offset and attempt that each positional root of a topic stands for."""
    words = words_of_roots(roots, key, ack_partitions)
    columns = []
    for bits in (ATTEMPT_BITS, OFFSET_BITS, PARTITION_BITS, SPOUT_BITS):
        columns.append((words & np.uint64((1 << bits) - 1)).tolist())
        words = words >> np.uint64(bits)
    attempts, offsets, partitions, spouts = columns
    return zip(spouts, partitions, offsets, attempts, strict=True)
