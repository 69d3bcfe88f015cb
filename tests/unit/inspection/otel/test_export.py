"""`acker otel` against a collector: what arrives, and what is said where there is none, or no OpenTelemetry."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from inspection.otel.spans import spans_of
from tests.unit.inspection.otel.collector import Collector, collecting

TRACE = Path(__file__).parent / "trace.json"
PRINTED = " ".join(TRACE.read_text().split()) + "\n"


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as collector:
        yield collector


def otel(printed: str, *arguments: str, before: str = "") -> subprocess.CompletedProcess[str]:
    """Runs the command, after some Python."""
    script = f"import sys\n{before}\nfrom acker_cli.app import main\nmain(['otel', *sys.argv[1:]])"
    return subprocess.run(
        [sys.executable, "-c", script, *arguments],
        input=printed,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_collector_receives_the_spans(collector: Collector) -> None:
    run = otel(PRINTED, "--endpoint", collector.endpoint)
    assert run.returncode == 0, run.stderr
    spans = {span.span_id: span for span in spans_of(json.loads(PRINTED))}
    assert run.stdout == f"sent {len(spans)} spans of 2 trees\n"
    (request,) = collector.requests
    received = {}
    for resource in request.resource_spans:
        service = {each.key: each.value.string_value for each in resource.resource.attributes}
        assert service["service.namespace"] == "words"
        for scope in resource.scope_spans:
            for span in scope.spans:
                received[int.from_bytes(span.span_id, "big")] = (service["service.name"], span)
    assert received.keys() == spans.keys()
    for span_id, (service_name, one) in received.items():
        wanted = spans[span_id]
        assert service_name == wanted.service
        assert int.from_bytes(one.trace_id, "big") == wanted.trace_id
        assert int.from_bytes(one.parent_span_id, "big") == (wanted.parent_id or 0)
        assert (one.start_time_unix_nano, one.end_time_unix_nano) == (wanted.start_ns, wanted.end_ns)
        assert (one.status.message, one.status.code) == (wanted.error, 2 if wanted.error else 0)


def test_a_collector_that_refuses_is_an_error(collector: Collector) -> None:
    collector.status = 400
    run = otel(PRINTED, "--endpoint", collector.endpoint)
    assert run.returncode == 1
    assert "acker: the collector did not take the spans: check --endpoint" in run.stderr
    assert "Traceback" not in run.stderr


def test_without_the_extra_one_line_says_what_to_install() -> None:
    run = otel(PRINTED, before="sys.modules['opentelemetry'] = None")
    assert run.returncode == 1
    assert run.stderr.count("\n") == 1
    assert "pip install 'kafka-acker[otel]'" in run.stderr


def test_what_is_no_tree_is_one_line(collector: Collector) -> None:
    run = otel("{", "--endpoint", collector.endpoint)
    assert run.returncode == 1
    assert "standard input is no JSON" in run.stderr
    assert collector.requests == []


def test_nothing_else_imports_opentelemetry() -> None:
    script = (
        "import sys, acker_cli.app, acker_worker.worker, spout_sdk, inspection.otel.spans, inspection.dead_letters\n"
        "import inspection.doctor\n"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)
