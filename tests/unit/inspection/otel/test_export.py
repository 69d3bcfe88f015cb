"""The export of `acker trace --otlp`: the errors of a collector, and without OpenTelemetry."""

import json
import sys
from pathlib import Path

import pytest

from inspection.errors import SpansError
from inspection.otel import send_trees
from tests.unit.cli.running import call_acker, one_line
from tests.unit.inspection.otel.collector import collecting

PRINTED = json.loads((Path(__file__).parent / "trace.json").read_text())


def test_a_collector_that_rejects_the_spans_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with collecting() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", collector.endpoint)
        collector.status = 400
        with pytest.raises(SpansError, match="did not accept the spans: check OTEL_EXPORTER_OTLP_ENDPOINT"):
            send_trees(PRINTED["topology"], PRINTED["trees"])
        assert len(collector.requests) == 1


def test_without_opentelemetry_the_error_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("opentelemetry")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "inspection.otel", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    missing = call_acker("trace", "--oldest", "1", "--otlp", cwd=tmp_path)
    assert "pip install 'kafka-acker[otel]'" in one_line(missing)
