"""The headers of a dead letter."""

from tuple_tree.errors import WireError
from tuple_tree.headers import dead_letter_headers


def test_the_headers_have_the_position_and_the_reason() -> None:
    """A file's name may have half of a character, which UTF-8 cannot carry, and an exception quotes it."""
    headers = dead_letter_headers("words.acks", 3, 2**40, reason="truncated", detail="böse: no \udcff", by="split/1")
    assert headers == [
        ("dead-letter.topic", b"words.acks"),
        ("dead-letter.partition", b"3"),
        ("dead-letter.offset", b"1099511627776"),
        ("dead-letter.reason", b"truncated"),
        ("dead-letter.detail", "böse: no \\udcff".encode()),
        ("dead-letter.by", b"split/1"),
    ]


def test_a_detail_always_fits_a_record_header() -> None:
    error = WireError("bad-payload", "x" * 1_000_000)
    assert (error.reason, len(error.detail)) == ("bad-payload", 500)
    assert error.detail.endswith("x…")
    assert str(error) == f"bad-payload: {error.detail}"
