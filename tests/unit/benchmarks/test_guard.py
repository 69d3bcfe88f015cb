"""The guard falls silent for nothing, and speaks up when a path has become slower."""

import time
from types import SimpleNamespace

import pytest

from benchmarks import guard, sdk
from benchmarks.guard import TRACKED_FLOOR, Check, bolt_round
from spout_sdk import BasicCollector, Tuple


def _steady(rate: float) -> guard.Round:
    return lambda: rate


class Clock:
    """CPU time that goes on only by what a bolt says that it costs: what is told must not depend on the machine."""

    def __init__(self) -> None:
        self.now = 0.0

    def bolt(self, microseconds: float) -> type[sdk.Basic]:
        """A bolt with that cost a tuple."""

        class Costly(sdk.Basic):
            def execute(_, tuple_: Tuple, collector: BasicCollector) -> None:  # noqa: N805
                super().execute(tuple_, collector)
                self.now += microseconds / 1e6

        return Costly


@pytest.mark.parametrize(("microseconds", "holds"), [(3.0, True), (5.0, True), (6.0, False)])
def test_a_slowed_path_falls_below_the_floor(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], microseconds: float, holds: bool
) -> None:
    clock = Clock()
    monkeypatch.setattr(sdk, "time", SimpleNamespace(process_time=lambda: clock.now, monotonic=time.monotonic))
    monkeypatch.setattr(guard, "TUPLES", 1_000)
    monkeypatch.setattr(guard, "ROUNDS", 3)
    tracked, untracked = (
        bolt_round("at_least_once", clock.bolt(microseconds)),
        bolt_round("at_most_once", clock.bolt(3)),
    )
    assert guard.guard([Check("tracked / untracked", tracked, untracked, TRACKED_FLOOR)]) is holds
    assert f"{3 / microseconds:.2f}, at least {TRACKED_FLOOR}" in capsys.readouterr().out


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
