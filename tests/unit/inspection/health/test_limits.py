"""The rules of Prometheus have the thresholds of the health model."""

import re

import yaml

from inspection.health import limits
from tests.pages import ROOT

THRESHOLDS = {
    "NothingProgresses": limits.STALLED_SECONDS,
    "BoltPaused": limits.PAUSED_SECONDS,
    "RestoreTakesLong": limits.RESTORE_SECONDS,
    "IdentitiesGrow": limits.FEW_IDENTITIES,
    "AckerLags": limits.CLOCK_LAG_SECONDS,
    "TreesTimeOut": limits.FAILED_SHARE,
    "TreesFail": limits.FAILED_SHARE,
    "SpoutWaits": limits.PENDING_SHARE,
    "DeadLetters": limits.DEAD_LETTERS,
    "TuplesNotTaken": limits.UNDELIVERED,
}


def test_alerts_have_the_thresholds_of_the_model() -> None:
    (group,) = yaml.safe_load((ROOT / "deploy/alerts.yml").read_text())["groups"]
    rules = {rule["alert"]: rule["expr"] for rule in group["rules"]}
    compared = {name: re.findall(r"> ([\d.]+)(?= |$)", rules[name]) for name in THRESHOLDS}
    assert {name: {*map(float, found)} for name, found in compared.items()} == {
        name: {float(limit)} for name, limit in THRESHOLDS.items()
    }
