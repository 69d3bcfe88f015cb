"""The processes that `acker run` starts for a topology."""

from typing import Any

import pytest

from acker_cli.errors import SettingsError
from acker_cli.processes import running, worker
from acker_cli.processes.running import RunPlan
from acker_cli.settings.sections import Settings
from spout_sdk import Topology
from tests.chained_clicks import topology
from tests.manifests import bolt, manifest, spout


def test_a_chained_bolt_has_no_processes_of_its_own() -> None:
    with pytest.raises(SettingsError, match="--component parse is chained, and runs in the tasks of clicks: give"):
        RunPlan.checked(topology, "module:topology", "parse", None, 0)


def test_a_run_names_the_guarantee_of_each_state_that_it_has() -> None:
    states = Topology(manifest(spout("lines")), {}, state_guarantees={"count": "each tuple once", "sum": "twice"})
    for component, names in ((None, ["count", "sum"]), ("sum", ["sum"]), ("lines", [])):
        assert [*RunPlan(states, "module:topology", component).guarantees] == names


class MadeError(Exception):
    """Raised with the name that a process would have in its group."""


def test_a_process_has_the_instance_of_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    def make(*_: Any, slot: str | None = None, instance: str | None = None, **__: Any) -> None:
        raise MadeError(slot or instance)

    monkeypatch.setattr(running, "ComponentRunner", make)
    for kind in ("AckerWorker", "AckerService"):
        monkeypatch.setattr(worker, kind, make)
    settings = Settings(instance="one")
    plan = RunPlan.checked(topology, "module:topology", "clicks", None, 0)
    unused: Any = None
    with pytest.raises(MadeError, match="one"):
        running.run_component(plan, {}, settings, unused, unused)
    for name in ("clicks", None):
        with pytest.raises(MadeError, match="one"):
            worker.run_worker(name, {}, settings, None)


def test_code_of_another_program_does_not_join_unless_it_is_told_to(monkeypatch: pytest.MonkeyPatch) -> None:
    published = manifest(spout("lines"), bolt("split", "lines"))

    class Published:
        def __init__(self, *_: Any, **__: Any) -> None: ...

        def check_access(self, _role: Any) -> None: ...

        def problems(self, _specs: Any) -> list[Exception]:
            return []

        def manifests(self) -> dict[str, Any]:
            return {"words": published}

    monkeypatch.setattr(running, "Catalogue", Published)
    other = manifest(spout("lines", {"word": int}), bolt("split", "lines"))
    for component in ("split", None):
        with pytest.raises(SettingsError, match=r"your code: its stream 'default' of 'lines' has word: str"):
            running.check_cluster({}, other, component)
        running.check_cluster({}, other, component, force=True)
        running.check_cluster({}, published, component)
