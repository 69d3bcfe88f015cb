"""Ids as Spark expressions: 64-bit columns are signed there, so whatever divides or orders them says so itself.

Everything here is a pure function of its columns: a task that is retried, or a micro-batch that is run again, makes
the same ids.
"""

from typing import Final

import xxhash
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from tuple_tree.ids import signed
from tuple_tree.routing import HASH_SEED

# What stands for an edge that hashes to zero, which would not show in a checksum.
_NOT_ZERO: Final = 0x5851F42D4C957F2D


def id_digits(id_: Column) -> Column:
    """A `bigint` as the 16 hexadecimal digits of its big-endian bytes, which `unhex` makes of any number of them."""
    # ANSI mode refuses to cast it to binary.
    return F.lpad(F.hex(id_), 16, "0")


def unsigned_mod(id_: Column, divisor: int) -> Column:
    """The unsigned id modulo a divisor below 2**62, as an `int`."""
    if divisor & (divisor - 1) == 0:
        return id_.bitwiseAND(F.lit(divisor - 1).cast("bigint")).cast("int")
    half = F.shiftrightunsigned(id_, 1) % F.lit(divisor)
    return ((half * F.lit(2) + id_.bitwiseAND(F.lit(1).cast("bigint"))) % F.lit(divisor)).cast("int")


def edge_of(*parts: Column) -> Column:
    """An edge id out of what identifies a delivery: XXH64 over the parts, never zero."""
    hashed = F.xxhash64(*parts)
    return F.coalesce(F.nullif(hashed, F.lit(0).cast("bigint")), F.lit(_NOT_ZERO))


def seed_of(*names: str) -> Column:
    """A literal `bigint` that stands for some names; the same in every run."""
    return F.lit(signed(xxhash.xxh64_intdigest("\x1f".join(names).encode(), HASH_SEED))).cast("bigint")
