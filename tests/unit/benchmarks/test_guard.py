"""The guard falls silent for nothing, and speaks up when a path has become slower."""

import pytest

from benchmarks import guard, sdk
from benchmarks.guard import TRACKED_FLOOR, Check, bolt_round
from spout_sdk import BasicCollector, Tuple


def _steady(rate: float) -> guard.Round:
    return lambda: rate


class Slowed(sdk.Basic):
    """A bolt whose tracked path costs about twice as much."""

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        super().execute(tuple_, collector)
        for _ in range(200):
            pass


def test_a_slowed_path_falls_below_the_floor() -> None:
    tracked, untracked = bolt_round("at_least_once", Slowed), bolt_round("at_most_once", sdk.Basic)
    assert Check("tracked / untracked", tracked, untracked, TRACKED_FLOOR).ratio() < TRACKED_FLOOR


def test_the_median_of_pairs_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "ROUNDS", 3)
    # The first pair warms up; then one round is disturbed.
    rates = iter([1.0, 60.0, 6.0, 66.0])
    assert Check("ours / other", lambda: next(rates), _steady(100), 0.5).ratio() == pytest.approx(0.6)


def test_one_that_does_not_hold_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    checks = (Check("a / b", _steady(60), _steady(100), 0.5), Check("c / d", _steady(40), _steady(100), 0.5))
    assert guard.guard(checks[:1])
    assert not guard.guard(checks)
    assert capsys.readouterr().out.splitlines()[-1] == "SLOW c / d: 0.40, at least 0.5"

    monkeypatch.setattr(guard, "checks", lambda: checks)
    monkeypatch.setattr("sys.argv", ["guard"])
    with pytest.raises(SystemExit, match="fallen below its floor"):
        guard.main()
