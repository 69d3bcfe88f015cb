"""The hierarchy of errors."""

import pytest

from tuple_tree import errors


@pytest.mark.parametrize(
    "error",
    [
        errors.InvalidNameError("x"),
        errors.ManifestError("x"),
        errors.PositionError("x"),
        errors.StatsRecordError("x"),
        errors.WireError("r", "x"),
    ],
)
def test_all_have_one_base(error: Exception) -> None:
    assert isinstance(error, errors.TupleTreeError)


def test_a_wire_error_has_a_reason_and_a_detail() -> None:
    error = errors.WireError("truncated", "it ends too soon")
    assert (error.reason, error.detail, str(error)) == ("truncated", "it ends too soon", "truncated: it ends too soon")


def test_a_detail_fits_a_record_header_whatever_it_quotes() -> None:
    error = errors.WireError("bad-payload", "x" * 1_000_000)
    assert len(error.detail) == 500
    assert error.detail.endswith("x…")
    assert str(error) == f"bad-payload: {error.detail}"
