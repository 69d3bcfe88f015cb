"""The done set of a partition, as it is committed: an offset, and what is done past it.

A commit of Kafka is an offset and a text of some kilobytes, the metadata. The set is in that text: runs of numbers as
the lengths of what is open and what is done, in turn, in a variable number of bytes (LEB128), all in Base64. A long
text is compressed by zlib (RFC 1950): 10,000 messages of a partition, done in any order, take 2.3 kB instead of 6.7.
"""

import zlib
from base64 import b64decode, b64encode
from binascii import Error
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from heapq import nlargest
from typing import Final

from tuple_tree.errors import CommitError
from tuple_tree.offsets import Runs

_MORE: Final = 0x80
_COMPRESSED: Final = "~"  # before a compressed text
_MOST_TRIED: Final = 4  # runs for each character: how many may fit if their lengths are much alike
_LONG: Final = 1_024  # characters; a shorter text is also read by version 0.2
_MOST_BYTES: Final = 1 << 24  # of the numbers of a text; more is not a set


@dataclass(frozen=True, slots=True)
class DoneSet:
    """The done part of a partition: everything before an offset, and the following.

    Attributes:
        offset: everything before it is done.
        runs: of offsets past it that are done.
        tuples: offset of an open record → runs of the indices of its tuples that are done.
        failures: offset of an open message → how often it has failed.
    """

    offset: int
    runs: Runs = ()
    tuples: Mapping[int, Runs] = field(default_factory=dict)
    failures: Mapping[int, int] = field(default_factory=dict)

    def fitted(self, most: int) -> "DoneSet":
        """The part of the set that `text` needs at most `most` characters for.

        What is left out is done again by the next owner: failures first, then tuples of open records, then the shortest
        runs.
        """
        for part in (self, replace(self, failures={}), DoneSet(self.offset, self.runs)):
            if len(part.runs) <= _MOST_TRIED * most and len(part.text) <= most:
                return part
        longest = nlargest(max(0, most), self.runs, key=lambda run: run[1] - run[0])
        least, behind = 0, len(longest) + 1
        while behind - least > 1:
            count = (least + behind) // 2
            fits = len(DoneSet(self.offset, sorted(longest[:count])).text) <= most
            least, behind = (count, behind) if fits else (least, count)
        return DoneSet(self.offset, sorted(longest[:least]))

    @property
    def known_to(self) -> int:
        """Behind all offsets that are done."""
        return self.runs[-1][1] if self.runs else self.offset

    @property
    def size(self) -> int:
        """How many offsets and tuples past the offset are done."""
        return sum(end - begin for runs in (self.runs, *self.tuples.values()) for begin, end in runs)

    @property
    def text(self) -> str:
        """The set without its offset; empty if nothing after that is done."""
        if not (self.runs or self.tuples or self.failures):
            return ""
        numbers = [len(self.runs), *_gaps(self.runs, self.offset), len(self.tuples)]
        at = self.offset
        for offset, runs in sorted(self.tuples.items()):
            numbers += (offset - at, len(runs), *_gaps(runs, 0))
            at = offset
        numbers.append(len(self.failures))
        at = self.offset
        for offset, count in sorted(self.failures.items()):
            numbers += (offset - at, count)
            at = offset
        data = _encoded(numbers)
        text = b64encode(data).decode()
        return text if len(text) < _LONG else _COMPRESSED + b64encode(zlib.compress(data)).decode()

    @classmethod
    def read(cls, offset: int, text: str) -> "DoneSet":
        """The set of a text; raises `CommitError` if it is none."""
        try:
            data = b64decode(text.removeprefix(_COMPRESSED), validate=True)
            numbers = _decoded(_decompressed(data) if text.startswith(_COMPRESSED) else data)
            done = cls._read(offset, numbers) if text else cls(offset)
            if next(numbers, None) is not None:
                raise ValueError("there is more")
        except (Error, ValueError, StopIteration, zlib.error) as error:
            raise CommitError(
                f"the commit at offset {offset} has a set that cannot be read ({error}): reset the offsets of its group"
            ) from error
        return done

    @classmethod
    def _read(cls, offset: int, numbers: Iterator[int]) -> "DoneSet":
        runs, tuples, failures = _runs(numbers, offset), {}, {}
        at = offset
        for _ in range(next(numbers)):
            at += next(numbers)
            tuples[at] = _runs(numbers, 0)
        at = offset
        for _ in range(next(numbers)):
            at += next(numbers)
            failures[at] = next(numbers)
        return cls(offset, runs, tuples, failures)


def _gaps(runs: Runs, at: int) -> Iterator[int]:
    """How many numbers from `at` on are open before each run, and how many are in it."""
    for begin, end in runs:
        yield from (begin - at, end - begin)
        at = end


def _runs(numbers: Iterator[int], at: int) -> Runs:
    runs = []
    for _ in range(next(numbers)):
        begin = at + next(numbers)
        at = begin + next(numbers)
        runs.append((begin, at))
    return runs


def _encoded(numbers: Iterable[int]) -> bytes:
    data = bytearray()
    for number in numbers:
        while number >= _MORE:
            data.append(number % _MORE | _MORE)
            number //= _MORE
        data.append(number)
    return bytes(data)


def _decompressed(data: bytes) -> bytes:
    decompressor = zlib.decompressobj()
    found = decompressor.decompress(data, _MOST_BYTES)
    if not decompressor.eof or decompressor.unused_data:
        raise ValueError("it does not end where its compressed data ends")
    return found


def _decoded(data: bytes) -> Iterator[int]:
    number = shift = 0
    for byte in data:
        number |= byte % _MORE << shift
        shift += 7
        if byte < _MORE:
            yield number
            number = shift = 0
    if shift:
        raise ValueError("it ends in the middle of a number")
