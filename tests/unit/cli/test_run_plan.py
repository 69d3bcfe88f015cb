"""The processes that `acker run` starts for a topology."""

from typing import Any

import pytest

from acker_cli.errors import SettingsError
from acker_cli.processes import running
from acker_cli.processes.running import RunPlan
from tests.chained_clicks import topology


def test_a_chained_bolt_has_no_processes_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingsError, match="--component parse is chained, and runs in the tasks of clicks: give"):
        RunPlan.checked(topology, "module:topology", "parse", (), 0)
    with pytest.raises(SettingsError, match=r"chained bolt, .* of clicks: give --processes clicks=2"):
        RunPlan.checked(topology, "module:topology", None, ["describe=2"], 0)
    started: list[tuple[Any, ...]] = []

    def start(_reference: str, component: str, count: int, *, has_packs: bool) -> None:
        started.append((component, count, has_packs))

    monkeypatch.setattr(running, "start_early", lambda _arguments, _count: None)
    monkeypatch.setattr(running, "start_component_early", start)
    RunPlan.checked(topology, "module:topology", None, ["clicks=2"], 0).start_early()
    assert started == [("clicks", 2, True), ("count", 1, True)]
