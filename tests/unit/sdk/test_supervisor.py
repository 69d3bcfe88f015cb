"""What a runner runs, before anything is started."""

from spout_sdk import Spout, TopologyBuilder, TopologyRunner, declare


class Lines(Spout):
    streams = (declare(["line"]),)

    def next_tuple(self) -> None:
        """Has nothing to emit."""


def transform(rows: object) -> object:
    return rows


def _topology() -> TopologyBuilder:
    builder = TopologyBuilder("mixed")
    builder.set_spout("lines", Lines)
    builder.set_bolt("upper", transform, external=True).shuffle_grouping("lines")
    return builder


topology = _topology().build()


def test_external_components_run_elsewhere() -> None:
    runner = TopologyRunner("tests.unit.sdk.test_supervisor:topology", {"bootstrap.servers": "unused:1"})
    assert runner.pids() == {"lines": []}
    assert list(runner.stats()) == ["lines"]
