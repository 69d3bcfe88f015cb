"""`acker otel` against a collector: the received spans, and the errors without a collector or OpenTelemetry."""

import sys
from pathlib import Path

import pytest

from tests.unit.cli.running import call_acker, one_line
from tests.unit.inspection.otel.collector import collecting

TRACE = Path(__file__).parent / "trace.json"
PRINTED = " ".join(TRACE.read_text().split()) + "\n"


def test_errors_are_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with collecting() as collector:
        collector.status = 400
        refused = call_acker("otel", "--endpoint", collector.endpoint, cwd=tmp_path, given=PRINTED)
        assert "acker: the collector did not accept the spans: check --endpoint" in refused.stderr
        assert refused.returncode == 1
        assert "Traceback" not in refused.stderr
        collector.requests.clear()
        broken = call_acker("otel", "--endpoint", collector.endpoint, cwd=tmp_path, given="{")
        assert "standard input is no JSON" in one_line(broken)
        assert collector.requests == []
    for name in [name for name in sys.modules if name.startswith("opentelemetry")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "inspection.otel", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    missing = call_acker("otel", cwd=tmp_path, given=PRINTED)
    assert "pip install 'kafka-acker[otel]'" in one_line(missing)
