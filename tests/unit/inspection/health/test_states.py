"""The checks of the states of running bolts."""

from dataclasses import replace
from typing import Any

from inspection.health.observation import Observation, OpenMessage
from inspection.health.states import check_identities, check_restores
from inspection.health.verdict import judge
from inspection.state_figures import RestoreFigures, StateFigures
from tests.unit.inspection.doctor.cases import lag_change, snapshot, summaries, topology

RESTORE: RestoreFigures = {
    "tasks": [0, 2],
    "done": 0.45,
    "records": 2_000_000,
    "records_per_second": 21_000.0,
    "left": 2_400_000,
    "seconds": 95.0,
}


def reporting(rate: float = 0.0, **changed: Any) -> Observation:
    state: StateFigures = {
        "key": ["word"],
        "guarantee": "each tuple once",
        "keys": 7,
        "bytes": 70,
        "identities": 0,
        "restore": None,
    }
    state.update(changed)  # type: ignore[typeddict-item]
    of = topology().observed
    return replace(of, snapshot=snapshot(of.manifest, split={"executed_per_second": rate, "state": state}))


def test_a_restore_that_takes_longer_than_the_message_timeout_is_a_warning() -> None:
    facts = reporting(restore=RESTORE)
    (finding,) = check_restores(facts)
    assert summaries([finding]) == [("warning", "restores", "split")]
    assert "the state of tasks 0, 2 for 95 s: 45 % is read, 21,000 records/s, and about 116 s are left" in finding.found
    assert finding.component == "split"
    assert judge(facts) == [finding]
    assert list(check_restores(reporting(restore={**RESTORE, "seconds": 30.0}))) == []
    assert "are left" not in next(check_restores(reporting(restore={**RESTORE, "done": 0.0}))).found
    # It explains that nothing is executed.
    standing = (lag_change(done=0),)
    assert summaries(judge(replace(reporting(), lag_changes=standing))) == [("warning", "lag", "words.split")]
    assert judge(replace(facts, lag_changes=standing)) == [finding]


def test_identities_that_are_kept_for_long_are_a_warning() -> None:
    (finding,) = check_identities(reporting(identities=100_001))
    assert summaries([finding]) == [("warning", "identities", "split")]
    assert "keeps 100,001 identities of tuples in its state, and executes 0 tuples a second" in finding.found
    assert "open-messages" not in finding.found
    held = OpenMessage("words.lines", "text", 3, 1_000, 12, 61.4, 299, 2)
    (finding,) = check_identities(
        replace(reporting(identities=100_001), open_messages=(held, replace(held, group="x")))
    )
    assert finding.found.endswith("of the findings open-messages are open: text[3] offset 1000.")
    # As many as ten minutes have are those of messages that are just processed.
    for fine in (reporting(identities=100_000), reporting(1_000.0, identities=600_000), reporting(identities=None)):
        assert list(check_identities(fine)) == []
    assert list(check_identities(topology().observed)) == []
