"""The workflow that publishes a release, as far as it can be checked without running it."""

import re

import pytest
import yaml

from tests.pages import ROOT
from tests.unit.deploy_tools import installed_tool

WORKFLOW = ROOT / ".github" / "workflows" / "release.yml"


def test_what_publishes_has_pinned_actions_and_needs_the_checks_and_trusts_its_identity_alone() -> None:
    text = WORKFLOW.read_text()
    assert all(re.fullmatch(r"[\w-]+/[\w-]+@v\d+\.\d+\.\d+", action) for action in re.findall(r"uses: (.*)", text))
    jobs = yaml.safe_load(text)["jobs"]

    def needed(name: str) -> set[str]:
        needs = jobs[name].get("needs", [])
        direct = {needs} if isinstance(needs, str) else set(needs)
        return direct.union(*map(needed, direct))

    assert all("check" in needed(name) for name in ("publish", "images", "notes"))
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert "secrets." not in str(jobs["publish"])
    assert [name for name, job in jobs.items() if job.get("permissions", {}).get("contents") == "write"] == ["notes"]


@pytest.mark.exhaustive
def test_actionlint_finds_nothing() -> None:
    run = installed_tool("actionlint", str(WORKFLOW))
    assert run.returncode == 0, run.stdout
